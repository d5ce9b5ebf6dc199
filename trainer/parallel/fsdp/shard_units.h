// Which parameters of a model are whole together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/core/block.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

struct ShardUnit {
  std::string name;                                        // "transformer.blocks.0"; "" for the root
  Block* block = nullptr;                                  // null: the root
  std::vector<std::pair<std::string, at::Tensor>> params;  // by the model's first name of each; each tensor once
};

// The root first, which may have no parameters, then blocks in the order of the model. A block is a unit when its own mark
// says so (Block::fsdp_wrap), or it has none and auto_wrap, wrap_types and min_num_params of the options choose it; never
// without parameters, nor inside of another unit, whose parameters include its own: of blocks within blocks the outermost
// that is chosen is the unit. A parameter that lies in several units, or in one and elsewhere, belongs to the root.
// Throws c10::ValueError: a parameter is not floating point; a block inside of a unit is marked as one; no block has one of
// wrap_types.
std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, const FsdpOptions& options);

}  // namespace composer
