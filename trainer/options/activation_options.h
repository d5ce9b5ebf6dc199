// These options choose which blocks of a model save their activations, and how: fsdp_config's activation_checkpointing
// and activation_cpu_offload.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/core/block.h"

namespace composer {

// A choice from a list of blocks: all, each n-th, or those of some types.
struct BlockChoice {
  int every = 0;                   // 0: none; 1: all; n: the first of each n
  std::vector<std::string> types;  // or the blocks of these types: the class's name without its namespace ("GptBlock")
  bool any() const { return every > 0 || !types.empty(); }
};

struct ActivationOptions {
  BlockChoice checkpoint;
  bool cpu_offload = false;  // for all blocks
};

// Returns, in order, the indices of the chosen blocks among blocks with these types. Returns kInvalidArgument for a
// type that no block has, naming the existing types.
absl::StatusOr<std::vector<size_t>> ChooseBlocks(const BlockChoice& choice, absl::Span<const std::string> types);

// Returns the model's blocks, outermost first, in the order of its modules.
std::vector<Block*> BlocksOf(torch::nn::Module& model);
// Returns "GptBlock" for "composer::(anonymous namespace)::GptBlock".
std::string BlockType(const Block& block);

}  // namespace composer
