// Which blocks of a model save their activations how: fsdp_config's activation_checkpointing and activation_cpu_offload.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/core/block.h"

namespace composer {

// Of a list of blocks: all, each n-th, or those of some types.
struct BlockChoice {
  int every = 0;                   // 0: none; 1: all; n: the first of each n
  std::vector<std::string> types;  // or those of these types: the class's name without its namespace ("GptBlock")
  bool any() const { return every > 0 || !types.empty(); }
};

struct ActivationOptions {
  BlockChoice checkpoint;
  bool cpu_offload = false;  // all blocks
};

// The indices that are chosen of blocks with these types, in order. kInvalidArgument: a type that none has, naming those
// that there are.
absl::StatusOr<std::vector<size_t>> ChooseBlocks(const BlockChoice& choice, absl::Span<const std::string> types);

// The model's blocks, outermost first, in the order of its modules.
std::vector<Block*> BlocksOf(torch::nn::Module& model);
// "GptBlock" of "composer::(anonymous namespace)::GptBlock".
std::string BlockType(const Block& block);

}  // namespace composer
