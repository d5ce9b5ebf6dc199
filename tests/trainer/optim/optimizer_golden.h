// Runs an optimizer through a golden file of the real packages (tools/golden_optimizers.py) and compares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainer/core/optimizer.h"

namespace composer {

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup>, const nlohmann::json& args)>;

// Replays every run of the optimizer of this name in tests/golden/<file>.json. After each kept update a parameter must
// agree within `tolerance`, plus `share` of the largest change so far. Returns the number of runs.
int ReplayGolden(const std::string& file, const std::string& name, const MakeOptimizer& make, double tolerance,
                 double share = 0);

// Returns one group over these parameters, named p0, p1, ….
std::vector<ParamGroup> OneGroup(const std::vector<at::Tensor>& params, double lr, double weight_decay);

// Copies every state tensor of `from` into the one of the same name in `to`, as loading a checkpoint does.
void CopyState(Optimizer& from, Optimizer& to);

}  // namespace composer
