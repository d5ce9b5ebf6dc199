// ActivationCheckpoint does not keep a block's activations for backward but recomputes them when backward reaches the
// block. Only the block's inputs stay in memory. Chen et al. 2016, arXiv:1604.06174.
//
//   block->Wrap(std::make_shared<ActivationCheckpoint>());   // before FSDP's wrapper, which then lies outside
//
// It is built on saved_tensors.h in the manner of torch's use_reentrant=False (torch/utils/checkpoint.py). The forward
// builds its graph as always, but each tensor that it saves becomes an index. The first of them that backward asks for
// makes the block run again, and the tensors which that run saves fill the places. The graph, its hooks
// (post-accumulate hooks fire once), the gradients and their order are thus the same as without checkpointing, bit for
// bit. The second run ends as soon as the last tensor that is still wanted was saved, so a last matrix product is not
// computed twice. Each tensor is freed with the node that used it.
//
// The second run sees what the first saw: the random state of the CPU and of the inputs' device (dropout's masks are
// the same), autocast, the same Inner, grad mode. Its effects on random state and on the values of the block's buffers
// are undone, so that BatchNorm counts a batch once (torch and Composer count it twice). Anything else that a block
// changes is not undone. Its buffers have the values that the forward left, so a block in training whose output depends
// on a buffer that it changes itself must not be checkpointed. Blocks may be nested and may take several inputs, any of
// which may be undefined or need no gradient; parameters may be frozen. retain_graph keeps the recomputed tensors until
// the graph is freed.
//
// Backward throws c10::Error when the second run saves other shapes or dtypes than the first, or when a tensor was
// changed in place after it was saved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/block.h"

namespace composer {

// Threads: Run is called on the forward's thread; the second run is on the autograd thread that asks. One object may
// wrap many blocks.
class ActivationCheckpoint final : public BlockWrapper {
 public:
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override;
};

}  // namespace composer
