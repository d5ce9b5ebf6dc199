// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace composer {

std::vector<int> BalanceByBytes(absl::Span<const int64_t> bytes, int ranks, absl::Span<const int64_t> own) {
  std::vector<size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : a < b; });
  using Load = std::pair<int64_t, int>;  // bytes so far, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < ranks; ++rank) loads.push({own.empty() ? 0 : own[static_cast<size_t>(rank)], rank});
  std::vector<int> owner(bytes.size());
  for (const size_t item : order) {
    const auto [load, rank] = loads.top();
    loads.pop();
    owner[item] = rank;
    loads.push({load + bytes[item], rank});
  }
  return owner;
}

}  // namespace composer
