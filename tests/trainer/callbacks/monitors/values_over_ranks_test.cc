// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/values_over_ranks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"

namespace composer {
namespace {

TEST(ValuesOverRanksTest, EveryRankHasMeanLeastAndGreatestOfEachNumber) {
  const std::vector<std::vector<double>> own = {{1, 7, NAN, NAN}, {-4, 7, 2, NAN}, {9, 7, 4, NAN}};
  ThreadsExchange exchange(3);
  SpawnRanks(3, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    const std::vector<OverRanks> over = ValuesOverRanks(own[static_cast<size_t>(rank)], &communicator);
    EXPECT_EQ(communicator.num_collectives(), 1);
    ASSERT_EQ(over.size(), 4u);
    const struct {
      double avg, min, max;
    } expected[] = {{2, -4, 9}, {7, 7, 7}, {3, 2, 4}};
    for (size_t i = 0; i < std::size(expected); ++i) {
      EXPECT_EQ(over[i].avg, expected[i].avg) << i;
      EXPECT_EQ(over[i].min, expected[i].min) << i;
      EXPECT_EQ(over[i].max, expected[i].max) << i;
    }
    EXPECT_TRUE(std::isnan(over[3].avg) && std::isnan(over[3].min) && std::isnan(over[3].max));
  });
}

TEST(ValuesOverRanksTest, OneRankHasItsOwn) {
  const double own[] = {2.5};
  const std::vector<OverRanks> over = ValuesOverRanks(own, nullptr);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over[0].avg, 2.5);
  EXPECT_EQ(over[0].min, 2.5);
  EXPECT_EQ(over[0].max, 2.5);
  EXPECT_TRUE(ValuesOverRanks({}, nullptr).empty());
}

}  // namespace
}  // namespace composer
