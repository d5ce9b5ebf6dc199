// Converts targets, given as class indices or dense, to dense ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

// Converts targets int64 [B, *] for logits [B, C, *] to [B, C, *] of the logits' dtype with a 1 at each index, and
// zeros for a negative one (no target). Targets of logits' shape are cast. Does not synchronise a GPU. Throws
// c10::ValueError that names the loss when the shapes do not fit.
at::Tensor OneHotTargets(const char* loss, const at::Tensor& logits, const at::Tensor& targets);

}  // namespace composer
