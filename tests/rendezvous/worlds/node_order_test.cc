// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/node_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using ::testing::ElementsAre;

TEST(OrderNodes, GivenRankThenArrival) {
  // Fields: {id, previous, given, arrival}.
  EXPECT_THAT(OrderNodes({{10, -1, -1, 0}, {11, -1, 1, 1}, {12, -1, 0, 2}, {13, -1, -1, 3}}, 8),
              ElementsAre(12, 11, 10, 13));
}

TEST(OrderNodes, PreviousRanksStayWhateverWasGiven) {
  EXPECT_THAT(OrderNodes({{10, 1, 0, 5}, {11, 0, 1, 6}, {12, -1, -1, 1}}, 8), ElementsAre(11, 10, 12));
}

TEST(OrderNodes, RanksCloseUpOverLostNodes) {
  EXPECT_THAT(OrderNodes({{12, 2, -1, 0}, {13, 3, -1, 1}, {10, 0, -1, 2}}, 8), ElementsAre(10, 12, 13));
}

TEST(OrderNodes, ReplacementTakesThePlaceOfTheNodeItReplaces) {
  EXPECT_THAT(OrderNodes({{10, 0, 0, 3}, {12, 2, 2, 4}, {21, -1, 1, 5}}, 8), ElementsAre(10, 21, 12));
}

TEST(OrderNodes, GivenRankThatAPreviousNodeHoldsGoesToTheEnd) {
  EXPECT_THAT(OrderNodes({{11, 0, 1, 3}, {12, 1, 2, 4}, {20, -1, 0, 5}}, 8), ElementsAre(11, 12, 20));
}

TEST(OrderNodes, SparesStayOut) {
  EXPECT_THAT(OrderNodes({{20, -1, 0, 0}, {10, 0, -1, 7}, {21, -1, -1, 1}, {11, 1, -1, 8}}, 3),
              ElementsAre(10, 11, 20));
}

TEST(OrderNodes, NodesOfAGroupAreNeighbours) {
  EXPECT_THAT(OrderNodes({{10, -1, -1, 0, "b"}, {11, -1, -1, 1, "a"}, {12, -1, -1, 2, "b"}, {13, -1, -1, 3}}, 8),
              ElementsAre(10, 12, 11, 13));
}

TEST(OrderNodes, ANewNodeFollowsItsGroup) {
  EXPECT_THAT(OrderNodes({{10, 0, -1, 5, "a"}, {11, 1, -1, 6, "b"}, {12, -1, -1, 1, "a"}, {13, -1, -1, 2, "c"}}, 8),
              ElementsAre(10, 12, 11, 13));
}

TEST(OrderNodes, GivenRanksComeBeforeGroups) {
  EXPECT_THAT(OrderNodes({{10, -1, 2, 0, "a"}, {11, -1, 1, 1, "b"}, {12, -1, 0, 2, "a"}}, 8), ElementsAre(12, 11, 10));
}

}  // namespace
}  // namespace composer
