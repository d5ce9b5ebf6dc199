// The one order in which values of several ranks, or of several virtual shards, are summed: a binary tree.
//
// T(x_0 … x_{n-1}) = x_0 for n = 1, else T(x_0 … x_{k-1}) + T(x_k … x_{n-1}), k the largest power of two below n.
// So ((x0 + x1) + (x2 + x3)) + x4. The tree over 2^a * 2^b values is the tree over 2^b results of trees over 2^a
// consecutive ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "absl/types/span.h"

namespace composer {

// out[i] = T(parts[0][i], parts[1][i], …), i in [0, n). parts: at least one, each n elements of `dtype`; out may be one of
// them, but not overlap otherwise. bfloat16 and half are summed in float32 and rounded once; bool is `or`; integers wrap.
// Throws c10::ValueError for other dtypes. Threads: any; uses only the caller's.
void TreeSum(c10::ScalarType dtype, absl::Span<const void* const> parts, void* out, int64_t n);

}  // namespace composer
