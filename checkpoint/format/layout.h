// This decides which rank writes which replicated tensor. Pure and deterministic: every rank computes the same plan
// without communicating.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace composer {

// Returns owner[i], the rank that writes item i. The largest items come first, each to the rank with the fewest bytes
// so far (the lowest rank and the first item among equals): no rank has more than 4/3 of the best possible maximum
// (Graham 1969). O(n log n + n log ranks). `loads` are bytes that each rank has to write anyway; empty: none.
std::vector<int> BalanceByBytes(absl::Span<const int64_t> bytes, int ranks, absl::Span<const int64_t> loads = {});

}  // namespace composer
