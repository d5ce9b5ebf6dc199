// A ShardUnit is a set of parameters of a model that are whole together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/options/fsdp_options.h"

namespace composer {

struct ShardUnit {
  std::string name;                                        // "transformer.blocks.0"; "" for the root
  std::shared_ptr<torch::nn::Module> module;               // a Block, or a layer in a slot; null: the root
  std::vector<std::pair<std::string, at::Tensor>> params;  // by the first of the model's names; each tensor once
};

// Returns the root first, which may have no parameters, then blocks in the order of the model. A block is a unit when
// its own mark says so (Block::fsdp_wrap), or when it has no mark and auto_wrap, wrap and min_num_params of the options
// choose it; another layer is one when they choose it. It is never a unit without parameters or inside another unit,
// which includes its parameters: of nested ones the outermost chosen one is the unit. A parameter that lies in several
// units, or in one and elsewhere, belongs to the root. Throws c10::ValueError if a parameter is not floating point, a
// block inside a unit is marked as one, a text of `wrap` chooses nothing, or a chosen layer cannot be wrapped
// (core/block.h).
std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, const FsdpOptions& options);

}  // namespace composer
