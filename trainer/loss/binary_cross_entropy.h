// Composer's binary cross-entropy: every class is a yes or no of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// sum over samples, classes and places of -(t log s(x) + (1 - t) log(1 - s(x))), s the sigmoid, divided by the batch
// size B: the mean over everything would be about a thousand times smaller than a cross-entropy and need other learning
// rates. logits [B, C, *]; targets int64 [B, *] (negative: no class), or of logits' shape.
// Source: mosaicml composer/loss/loss.py. Throws c10::ValueError when the shapes do not fit.
at::Tensor BinaryCrossEntropyWithLogits(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace composer
