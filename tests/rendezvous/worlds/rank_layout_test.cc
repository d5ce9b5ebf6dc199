// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/rank_layout.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(RankLayout, OneNode) {
  const RankLayout layout({2});
  EXPECT_EQ(layout.world_size(), 2);
  EXPECT_EQ(layout.base_rank(0), 0);
}

TEST(RankLayout, NodesMayDifferInSlots) {
  const RankLayout layout({8, 1, 4});
  EXPECT_EQ(layout.world_size(), 13);
  EXPECT_EQ(layout.num_nodes(), 3);
  EXPECT_EQ(layout.base_rank(1), 8);
  EXPECT_EQ(layout.base_rank(2), 9);
  EXPECT_EQ(layout.slots(1), 1);
  EXPECT_EQ(layout.slots(2), 4);
}

TEST(RankLayout, LargestJobFitsAnInt) {
  const RankLayout layout(std::vector<int>(kMaxNodes, kMaxSlots));
  EXPECT_EQ(layout.world_size(), 1'024'000'000);
}

TEST(RankLayoutDeathTest, RefusesNodesWithoutSlots) { EXPECT_DEATH(RankLayout({0}), "slots 0"); }

}  // namespace
}  // namespace composer
