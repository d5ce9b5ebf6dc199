// The optimizer's state of a checkpoint as torch names and groups it, for files that PyTorch goes on from:
// composer_export.h and dcp_export.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/tools/weight_names.h"
#include "checkpoint/torch_files/pickle_writer.h"

namespace composer {

struct TorchOptimizer {
  std::string name;  // the class, "DecoupledAdamW"
  struct Parameter {
    std::string name;
    std::vector<std::pair<std::string, at::Tensor>> slots;  // "exp_avg", "step" …
  };
  std::vector<Parameter> parameters;  // those that have a state
  // Of each group its settings and `params`: JSON text by key, which AppendTorchValue writes.
  std::vector<std::vector<std::pair<std::string, std::string>>> groups;
};

// Returns kFailedPrecondition for an optimizer other than SGD, DecoupledSGDW, Adam, AdamW and DecoupledAdamW, or a
// checkpoint that does not name it; kDataLoss if damaged. Throws nlohmann's exceptions for small state that is not as
// written.
absl::StatusOr<TorchOptimizer> ReadTorchOptimizer(const StateDict& state, const std::vector<RenameRule>& rules);

// Appends a setting: numbers, None, a tuple of numbers (betas), a list of names.
void AppendTorchValue(const std::string& json, PickleWriter& pickle);

}  // namespace composer
