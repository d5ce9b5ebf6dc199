// Activation checkpointing: a block's activations are not kept for backward but computed again when backward reaches it.
// Of the block only its inputs stay in memory. Chen et al. 2016, arXiv:1604.06174.
//
//   block->Wrap(std::make_shared<ActivationCheckpoint>());   // before FSDP's wrapper, which then lies outside
//
// Built on saved_tensors.h as torch's use_reentrant=False (torch/utils/checkpoint.py): the forward builds its graph as
// always, but each tensor that it saves becomes a number; the first of them that backward asks for makes the block run
// again, and what that run saves takes the places. So the graph, its hooks (post-accumulate hooks fire once), the gradients
// and their order are those without checkpointing, bit for bit. The second run ends as soon as the last tensor that is still
// wanted was saved: a last matrix product is not computed twice. Tensors go with the node that used them.
//
// The second run sees what the first saw: the random state of the CPU and of the inputs' device (dropout's masks are the
// same), autocast, the same Inner, grad mode. What it leaves behind is undone: random state, and the values of the block's
// buffers, so that BatchNorm counts a batch once (torch and Composer count it twice). Not undone: anything else that a block
// changes. Its buffers have the values that the forward left, so a block in training whose output depends on a buffer that it
// changes itself must not be checkpointed.
// Blocks may be nested, take several inputs, any of which may be undefined or need no gradient; parameters may be frozen.
// retain_graph keeps what was computed again until the graph goes.
//
// Throws c10::Error from backward when the second run saves other shapes or dtypes than the first, or when a tensor was
// changed in place after it was saved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/block.h"

namespace composer {

// Threads: Run is the forward's; the second run is on the thread of autograd that asks. One object may wrap many blocks.
class ActivationCheckpoint final : public BlockWrapper {
 public:
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override;
};

}  // namespace composer
