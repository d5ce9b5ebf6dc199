// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace composer {
namespace {

TEST(BalanceByBytes, LargestFirstToTheLeastLoaded) {
  EXPECT_EQ(BalanceByBytes({}, 2), std::vector<int>{});
  EXPECT_EQ(BalanceByBytes({5, 5, 5}, 1), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(BalanceByBytes({1, 10, 6, 5}, 2), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(BalanceByBytes({4, 4, 4}, 3), (std::vector<int>{0, 1, 2}));  // equal sizes: in order, lowest rank first
  EXPECT_EQ(BalanceByBytes({0, 0, 0}, 2), (std::vector<int>{0, 0, 0}));  // empty tensors stay in one file
}

TEST(BalanceByBytes, NoRankHasMuchMoreThanItsShare) {
  std::vector<int64_t> bytes;
  for (int64_t i = 0; i < 1000; ++i) bytes.push_back(1 + i * i % 997);
  const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  for (const int ranks : {2, 3, 8, 64}) {
    std::vector<int64_t> load(static_cast<size_t>(ranks));
    const std::vector<int> owner = BalanceByBytes(bytes, ranks);
    for (size_t i = 0; i < bytes.size(); ++i) load[static_cast<size_t>(owner[i])] += bytes[i];
    EXPECT_LE(*std::max_element(load.begin(), load.end()), total / ranks + 997) << ranks;
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), int64_t{0}), total);
  }
}

}  // namespace
}  // namespace composer
