// Composer's methods of initialising a model's layers, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace composer {

// Applies each name in order to every layer of the model, drawing from torch's default generator:
//   kaiming_normal, kaiming_uniform   weights of Linear and Conv2d: gain sqrt(2), by fan in
//   xavier_normal, xavier_uniform     weights of Linear and Conv2d: gain 1, by fan in + fan out
//   bn_uniform                        BatchNorm2d: weight uniform in [0, 1), bias 0
//   bn_ones                           BatchNorm2d: weight 1, bias 0
//   linear_log_constant_bias          biases of Linear: -log(outputs)
// Layers without such a parameter are left alone. For an unknown name, returns kInvalidArgument with the nearest one
// and leaves the model untouched. Source: mosaicml composer/models/initializers.py.
absl::Status InitializeModel(const std::vector<std::string>& names, torch::nn::Module& model);

std::vector<std::string> InitializerNames();

}  // namespace composer
