// These options choose which blocks or layers of a model save their activations, and how: fsdp_config's
// activation_checkpointing and activation_cpu_offload. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/block.h"
#include "trainer/layers/layer_selector.h"

namespace composer {

// A choice of blocks, or of layers that are named: all of them, or each n-th.
struct BlockChoice {
  int every = 0;       // 0: none, or all of `layers`; 1: all; n: the first of each n
  LayerChoice layers;  // empty: the model's blocks
  bool any() const { return every > 0 || !layers.empty(); }
};

struct ActivationOptions {
  BlockChoice checkpoint;
  bool cpu_offload = false;  // for all blocks, or those of checkpoint.layers
};

using ModulePointers = std::vector<std::shared_ptr<torch::nn::Module>>;

// Returns the model's blocks, outermost first, in the order of its modules.
ModulePointers BlocksOf(const torch::nn::Module& model);

// Returns what `choice` chooses from, in the order of the model: its layers, or the model's blocks. kInvalidArgument
// naming the text that chooses nothing, a layer that cannot be wrapped (core/block.h), or the model if it has no
// blocks.
absl::StatusOr<ModulePointers> CandidatesOf(const torch::nn::Module& model, const BlockChoice& choice);

}  // namespace composer
