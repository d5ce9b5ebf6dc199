// Targets as class indices or dense, made dense.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// targets int64 [B, *] for logits [B, C, *] -> [B, C, *] of the logits' dtype with a 1 at each index, and zeros for a
// negative one (no target). Targets of logits' shape are cast. Does not synchronise a GPU. Throws c10::ValueError,
// naming the loss, when the shapes do not fit.
at::Tensor OneHotTargets(const char* loss, const at::Tensor& logits, const at::Tensor& targets);

}  // namespace composer
