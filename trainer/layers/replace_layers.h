// Surgery finds the layers of a model and replaces them. Source: mosaicml composer/utils/module_surgery.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/layers/layer_selector.h"

namespace composer {

// Returns what takes the module's place, which may contain the module; null leaves it.
using ReplacementPolicy = std::function<std::shared_ptr<torch::nn::Module>(
    const std::string& name, const std::shared_ptr<torch::nn::Module>& module)>;

// Asks the policy for each module of the model, parents before their children, and puts the replacements into their
// slots. A module with several parents is replaced by the same one in all of them; what is inside a replacement is not
// asked for. A replacement is in training mode if the module was. Returns the names of what was replaced. Throws
// c10::ValueError naming the layer when it is in no slot, since the model would not use the replacement, or when its
// slot cannot hold the replacement; what was replaced before stays so.
std::vector<std::string> ReplaceLayers(torch::nn::Module& model, const ReplacementPolicy& policy);

}  // namespace composer
