// Composer's binary cross-entropy, in which every class is an independent yes-or-no decision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// Returns the sum over samples, classes and places of -(t log s(x) + (1 - t) log(1 - s(x))), with s the sigmoid,
// divided by the batch size B. The mean over everything would be about a thousand times smaller than a cross-entropy
// and would need other learning rates. logits are [B, C, *]; targets are int64 [B, *] (a negative one means no class)
// or have logits' shape.
// Source: mosaicml composer/loss/loss.py. Throws c10::ValueError when the shapes do not fit.
at::Tensor BinaryCrossEntropyWithLogits(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace composer
