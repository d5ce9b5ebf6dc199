// Collects the parameters of a model for an optimizer:
//   options.make_optimizer = [](Model& model) {
//     return std::make_unique<DecoupledAdamW>(ParamGroupsOf(model, {.lr = 1e-3}), AdamWOptions{});
//   };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "trainer/optim/param_groups.h"

namespace composer {

// Returns all parameters, in the model's order, by the model's names.
NamedTensors NamedParametersOf(const torch::nn::Module& model);

// Returns each parameter once; it may have several names.
std::vector<at::Tensor> ParametersOnce(const torch::nn::Module& model);

// Returns MakeParamGroups of these parameters. Throws StatusError with its status.
std::vector<ParamGroup> ParamGroupsOf(const torch::nn::Module& model, const ParamGroupOptions& options);

}  // namespace composer
