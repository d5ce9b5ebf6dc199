// Which parameters of a model are whole together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/core/block.h"

namespace composer {

struct ShardUnit {
  std::string name;                                        // "transformer.blocks.0"; "" for the root
  Block* block = nullptr;                                  // null: the root
  std::vector<std::pair<std::string, at::Tensor>> params;  // by the model's first name of each; each tensor once
};

// The root first, which may have no parameters, then the outermost blocks with at least min_num_params parameters (and
// one), in the order of the model. A parameter that lies in several blocks, or in a block and elsewhere, belongs to the
// root. Throws c10::ValueError when one is not floating point.
std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, int64_t min_num_params);

}  // namespace composer
