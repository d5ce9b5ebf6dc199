// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using Kind = MembershipDecision::Kind;
using ::testing::ElementsAre;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

struct Case {
  const char* name;
  RollCall roll;
  MembershipPolicy policy;
  double now;
  Kind kind;
  double until;  // kWait only
  const char* reason;
};

TEST(DecideMembership, Table) {
  const MembershipPolicy elastic{2, 4, absl::Seconds(1)};
  const MembershipPolicy one{1, 1, absl::Seconds(1)};
  const Case cases[] = {
      {"nobody", {}, one, 0, Kind::kNothing, 0, "0 nodes here, at least 1 needed"},
      {"one of one", {.waiting = 1, .min_reached = At(5)}, one, 5, Kind::kForm, 0, "all 1 node are here"},
      {"too few", {.waiting = 1}, elastic, 100, Kind::kNothing, 0, "1 node here, at least 2 needed"},
      {"last call begins",
       {.waiting = 2, .min_reached = At(5)},
       elastic,
       5,
       Kind::kWait,
       6,
       "last call: 2 nodes of at most 4 are here"},
      {"a third does not prolong it",
       {.waiting = 3, .min_reached = At(5)},
       elastic,
       5.9,
       Kind::kWait,
       6,
       "last call: 3 nodes of at most 4 are here"},
      {"last call over",
       {.waiting = 3, .min_reached = At(5)},
       elastic,
       6,
       Kind::kForm,
       0,
       "3 nodes of at most 4 are here and the last call is over"},
      {"all four", {.waiting = 4, .min_reached = At(5)}, elastic, 5, Kind::kForm, 0, "all 4 nodes are here"},
      {"more than four", {.waiting = 5, .min_reached = At(5)}, elastic, 5, Kind::kForm, 0, "all 4 nodes are here"},
      {"late node",
       {.waiting = 4, .min_reached = At(5), .last_generation = 3, .running = true, .survivors = 2},
       elastic,
       50,
       Kind::kNothing,
       0,
       "generation 3 is running"},
      {"survivors are back",
       {.waiting = 3,
        .min_reached = At(9),
        .last_generation = 3,
        .ended = At(9),
        .survivors = 3,
        .survivors_waiting = 3},
       elastic,
       9,
       Kind::kForm,
       0,
       "the 3 nodes left of generation 3 are back"},
      {"too few survivors",
       {.waiting = 1,
        .min_reached = At(1),
        .last_generation = 3,
        .ended = At(9),
        .survivors = 1,
        .survivors_waiting = 1},
       elastic,
       100,
       Kind::kNothing,
       0,
       "1 node here, at least 2 needed"},
      {"a survivor is still ending its workers",
       {.waiting = 2,
        .min_reached = At(9),
        .last_generation = 3,
        .ended = At(9),
        .survivors = 3,
        .survivors_waiting = 2},
       elastic,
       11,
       Kind::kWait,
       24,
       "1 of the 3 nodes left of generation 3 not back yet"},
      {"a survivor does not come",
       {.waiting = 2,
        .min_reached = At(9),
        .last_generation = 3,
        .ended = At(9),
        .survivors = 3,
        .survivors_waiting = 2},
       elastic,
       24,
       Kind::kForm,
       0,
       "2 nodes of at most 4 are here and the last call is over"},
      {"no survivors: last call for the newcomers",
       {.waiting = 2, .min_reached = At(12), .last_generation = 3, .ended = At(9)},
       elastic,
       12,
       Kind::kWait,
       13,
       "last call: 2 nodes of at most 4 are here"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const MembershipDecision decision = DecideMembership(c.roll, c.policy, At(c.now));
    EXPECT_EQ(decision.kind, c.kind);
    if (c.kind == Kind::kWait) {
      EXPECT_EQ(decision.until, At(c.until));
    }
    EXPECT_EQ(decision.reason, c.reason);
  }
}

TEST(OrderNodes, GivenRankThenArrival) {
  // {id, previous, given, arrival}
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

}  // namespace
}  // namespace composer
