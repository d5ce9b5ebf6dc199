// Cross-entropy losses. All take logits, not probabilities, and return a scalar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace composer {

// Targets with this value do not count.
inline constexpr int64_t kIgnoreIndex = -100;

// Composer's soft_cross_entropy (composer/loss/loss.py).
//   targets int64 [B, *]: mean over the targets that are not kIgnoreIndex of -log softmax(logits)[target]
//   targets floating, of logits' shape (as MixUp and label smoothing make them):
//     sum of -targets * log_softmax(logits) / sum of targets
// logits are [B, C, *], with the classes in dimension 1. Throws c10::ValueError when the shapes do not fit.
at::Tensor SoftCrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

// Returns SoftCrossEntropy of each sample, [B]: the mean over its places that count (dense targets: all of them); 0 for
// a sample without any.
at::Tensor SoftCrossEntropyBySample(const at::Tensor& logits, const at::Tensor& targets);

// Returns the mean over the tokens that are not kIgnoreIndex. logits are [B, T, V]; targets are int64 [B, T], already
// shifted by one. Throws c10::ValueError when the shapes do not fit.
at::Tensor NextTokenCrossEntropy(const at::Tensor& logits, const at::Tensor& targets);
void CheckNextTokenShapes(const at::Tensor& logits, const at::Tensor& targets);  // only that

}  // namespace composer
