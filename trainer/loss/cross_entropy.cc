// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/cross_entropy.h"

#include <torch/types.h>

namespace composer {

at::Tensor SoftCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (!targets.is_floating_point()) {
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, kIgnoreIndex);
  }
  TORCH_CHECK_VALUE(targets.sizes() == logits.sizes(), "soft cross-entropy: dense targets must have the logits' shape ",
                    logits.sizes(), ", got ", targets.sizes());
  return -(targets * at::log_softmax(logits, 1)).sum() / targets.sum();
}

at::Tensor SoftCrossEntropyBySample(const at::Tensor& logits, const at::Tensor& targets) {
  const int64_t samples = logits.size(0);
  if (targets.is_floating_point()) return -(targets * at::log_softmax(logits, 1)).sum(1).reshape({samples, -1}).mean(1);
  const at::Tensor losses = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnoreIndex);
  const at::Tensor counted = targets.ne(kIgnoreIndex).reshape({samples, -1}).sum(1);
  return losses.reshape({samples, -1}).sum(1) / counted.clamp_min(1);
}

void CheckNextTokenShapes(const at::Tensor& logits, const at::Tensor& targets) {
  TORCH_CHECK_VALUE(logits.dim() == 3 && targets.sizes() == logits.sizes().slice(0, 2),
                    "next-token cross-entropy: expected logits [B, T, V] and targets [B, T], got ", logits.sizes(),
                    " and ", targets.sizes());
}

at::Tensor NextTokenCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  CheckNextTokenShapes(logits, targets);
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::Mean, kIgnoreIndex);
}

}  // namespace composer
