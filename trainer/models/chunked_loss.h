// The cross-entropy of a large vocabulary without whole logits: the head and the loss run over so many tokens at a
// time, and again in backward, so that logits, their softmax and its gradient exist for one chunk only. With N tokens,
// V classes and chunks of C, 4 C V bytes in place of 4 N V for each of them, for one more product of the head in
// backward. Activation checkpointing (parallel/activations) does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace composer {

class ChunkedLoss {
 public:
  // Maps x [n, width] to logits [n, vocab]: a head, with its parameters. It must do the same each time.
  using Head = std::function<at::Tensor(const at::Tensor& x)>;
  // Maps these and targets [n] to the loss of each token, float32 [n], 0 where the target is kIgnoreIndex.
  using LossOf = std::function<at::Tensor(const at::Tensor& logits, const at::Tensor& targets)>;

  // chunk >= 1 tokens at a time.
  ChunkedLoss(int64_t chunk, Head head, LossOf loss);
  int64_t chunk() const { return chunk_; }
  ~ChunkedLoss();

  // Returns the loss of each token, float32 [B, T], for x
  // [B, T, width] and targets int64 [B, T]. Differentiable, also in the head's parameters, whose gradients come in one
  // piece as without chunks; as for any layer they must be there when backward runs, and so must this object. Throws
  // c10::ValueError when the shapes do not fit.
  at::Tensor Losses(const at::Tensor& x, const at::Tensor& targets);

 private:
  class HeadAndLoss;
  int64_t chunk_;
  std::shared_ptr<HeadAndLoss> block_;
};

}  // namespace composer
