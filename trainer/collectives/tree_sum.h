// TreeSum defines the one order in which values of several ranks, or of several virtual shards, are summed: a binary
// tree.
//
// T(x_0 … x_{n-1}) = x_0 for n = 1, else T(x_0 … x_{k-1}) + T(x_k … x_{n-1}), with k the largest power of two below n.
// An example is ((x0 + x1) + (x2 + x3)) + x4. The tree over 2^a * 2^b values is the tree over 2^b results of trees over
// 2^a consecutive ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "absl/types/span.h"

namespace composer {

// Computes out[i] = T(parts[0][i], parts[1][i], …) for i in [0, n). There is at least one part, each of n elements of
// `dtype`; out may be one of them but must not overlap otherwise. bfloat16 and half are summed in float32 and rounded
// once; bool is `or`; integers wrap. Throws c10::ValueError for other dtypes. Thread-safe; uses only the caller's
// thread.
void TreeSum(c10::ScalarType dtype, absl::Span<const void* const> parts, void* out, int64_t n);

}  // namespace composer
