// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

class CoordinatorTest : public ::testing::Test {
 protected:
  explicit CoordinatorTest(const MembershipPolicy& policy = {2, 3, absl::Seconds(1)}) : coordinator_("job", policy) {}

  // Session n is the first stream of node "n".
  Coordinator::Outcome Join(Coordinator::Session session, const std::string& node_id = "", int given_rank = -1) {
    proto::Caller caller;
    caller.set_job("job");
    proto::NodeInfo node;
    node.set_node_id(node_id.empty() ? absl::StrCat(session) : node_id);
    node.set_hostname(absl::StrCat("host", session));
    node.set_node_rank(given_rank);
    node.set_slots(2);
    return coordinator_.Join(session, caller, node, clock_.Now());
  }
  Coordinator::Outcome Lose(Coordinator::Session session) { return coordinator_.Lost(session, clock_.Now()); }
  Coordinator::Outcome Report(Coordinator::Session session, uint64_t generation, const std::string& message) {
    proto::FailureCause cause;
    cause.set_message(message);
    return coordinator_.GenerationEnded(session, generation, cause, clock_.Now());
  }
  // Three nodes in generation 1, on sessions 1 to 3.
  void FormThree() {
    for (int session = 1; session <= 3; ++session) Join(session);
  }
  static std::vector<Coordinator::Session> Receivers(const Coordinator::Outcome& outcome) {
    std::vector<Coordinator::Session> sessions;
    for (const auto& out : outcome.messages) sessions.push_back(out.session);
    return sessions;
  }

  ManualClock clock_;
  Coordinator coordinator_;
};

TEST_F(CoordinatorTest, FormsAtMaxNodesWithRanksAndReason) {
  EXPECT_THAT(Receivers(Join(1)), ElementsAre());
  EXPECT_EQ(coordinator_.wake_at(), absl::InfiniteFuture());
  EXPECT_THAT(Receivers(Join(2)), ElementsAre());
  EXPECT_EQ(coordinator_.wake_at(), clock_.Now() + absl::Seconds(1));
  const Coordinator::Outcome outcome = Join(3, "", 0);
  EXPECT_EQ(outcome.begun, 1u);
  ASSERT_THAT(Receivers(outcome), ElementsAre(3, 1, 2));
  const proto::World& world = outcome.messages[0].message->world();
  EXPECT_EQ(world.generation(), 1u);
  EXPECT_EQ(world.world_size(), 6);
  EXPECT_EQ(world.reason(), "all 3 nodes are here");
  EXPECT_EQ(world.nodes(2).node().node_id(), "2");
  EXPECT_EQ(world.nodes(2).node_rank(), 2);
  EXPECT_EQ(world.nodes(2).base_rank(), 4);
  EXPECT_EQ(coordinator_.wake_at(), absl::InfiniteFuture());
}

TEST_F(CoordinatorTest, LastCallEndsWithATick) {
  Join(1);
  Join(2);
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(coordinator_.Tick(clock_.Now()).begun, 0u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(coordinator_.Tick(clock_.Now()).begun, 1u);
}

TEST_F(CoordinatorTest, FirstCauseIsToldToTheOthersAndLaterOnesAreDropped) {
  FormThree();
  const Coordinator::Outcome outcome = Report(2, 1, "rank 3: signal 9");
  EXPECT_EQ(outcome.ended, 1u);
  EXPECT_EQ(outcome.why_ended, "rank 3: signal 9");
  ASSERT_THAT(Receivers(outcome), ElementsAre(1, 3));
  EXPECT_EQ(outcome.messages[0].message->generation_over().cause().message(), "rank 3: signal 9");
  const Coordinator::Outcome collateral = Report(3, 1, "peer closed");
  EXPECT_EQ(collateral.ended, 0u);
  EXPECT_THAT(Receivers(collateral), ElementsAre());
}

TEST_F(CoordinatorTest, ReportOfAnotherGenerationIsIgnored) {
  FormThree();
  EXPECT_EQ(Report(1, 0, "x").ended, 0u);
  EXPECT_EQ(Report(1, 2, "x").ended, 0u);
  EXPECT_EQ(Report(9, 1, "a stranger").ended, 0u);
}

TEST_F(CoordinatorTest, NextWorldFormsAtOnceWhenAllSurvivorsAreBack) {
  FormThree();
  const Coordinator::Outcome lost = Lose(2);
  EXPECT_EQ(lost.ended, 1u);
  EXPECT_EQ(lost.why_ended, "node 1 (host2) was lost: its connection to the rendezvous ended without a farewell");
  EXPECT_THAT(Receivers(lost), ElementsAre(1, 3));
  EXPECT_EQ(lost.messages[0].message->generation_over().cause().node_id(), "2");
  EXPECT_EQ(Join(3).begun, 0u);
  const Coordinator::Outcome formed = Join(1);
  EXPECT_EQ(formed.begun, 2u);
  EXPECT_THAT(Receivers(formed), ElementsAre(1, 3)) << "ranks stay with their nodes";
  EXPECT_EQ(formed.messages[0].message->world().reason(), "the 2 nodes left of generation 1 are back");
}

TEST_F(CoordinatorTest, LossOfTheLastMissingSurvivorFormsTheWorld) {
  FormThree();
  Report(1, 1, "x");
  Join(1);
  Join(2);
  EXPECT_EQ(coordinator_.wake_at(), clock_.Now() + kSurvivorWait);
  EXPECT_EQ(Lose(3).begun, 2u);
}

TEST_F(CoordinatorTest, JoiningAgainEndsTheRunningGeneration) {
  FormThree();
  const Coordinator::Outcome outcome = Join(2);
  EXPECT_EQ(outcome.ended, 1u);
  EXPECT_EQ(outcome.why_ended, "node 1 (host2) joined again");
  EXPECT_THAT(Receivers(outcome), ElementsAre(1, 3));
}

TEST_F(CoordinatorTest, LateNodeWaitsAndFillsThePlaceOfALostOne) {
  FormThree();
  EXPECT_THAT(Receivers(Join(4)), ElementsAre());
  Lose(1);
  Join(2);
  const Coordinator::Outcome formed = Join(3);
  EXPECT_THAT(Receivers(formed), ElementsAre(2, 3, 4));
  EXPECT_EQ(formed.messages[0].message->world().reason(), "all 3 nodes are here");
}

TEST_F(CoordinatorTest, LeaveEndsTheGenerationOnlyWhenAllHaveLeft) {
  FormThree();
  EXPECT_EQ(coordinator_.Leave(1, clock_.Now()).ended, 0u);
  EXPECT_EQ(coordinator_.Leave(2, clock_.Now()).ended, 0u);
  EXPECT_EQ(Lose(1).ended, 0u) << "its stream ends after Leave";
  const Coordinator::Outcome last = coordinator_.Leave(3, clock_.Now());
  EXPECT_EQ(last.ended, 1u);
  EXPECT_THAT(Receivers(last), ElementsAre());
}

TEST_F(CoordinatorTest, RefusalGoesToTheNewNodeOnlyAndChangesNothing) {
  Join(1, "a", 0);
  const Coordinator::Outcome refused = Join(2, "b", 0);
  ASSERT_THAT(Receivers(refused), ElementsAre(2));
  EXPECT_TRUE(refused.messages[0].last);
  EXPECT_EQ(refused.messages[0].message->refusal().field(), "node_rank");
  Lose(2);
  EXPECT_THAT(Receivers(Join(3, "c", 1)), ElementsAre());
  EXPECT_EQ(Join(4, "d", 2).begun, 1u);
}

TEST_F(CoordinatorTest, SameNodeOnANewStreamReplacesTheOld) {
  FormThree();
  const Coordinator::Outcome outcome = Join(7, "2");
  EXPECT_THAT(outcome.replaced, ElementsAre(2));
  EXPECT_EQ(outcome.ended, 1u);
  EXPECT_EQ(Lose(2).ended, 0u);
  Join(1);
  EXPECT_THAT(Receivers(Join(3)), ElementsAre(1, 3, 7));
}

class LargeJobTest : public CoordinatorTest {
 protected:
  static constexpr int kNodes = 100'000;
  LargeJobTest() : CoordinatorTest({1, kNodes, absl::Seconds(1)}) {}
};

TEST_F(LargeJobTest, HundredThousandNodesFormAndFormAgainAfterALoss) {
  for (int session = 1; session < kNodes; ++session) ASSERT_EQ(Join(session, "", session - 1).begun, 0u);
  const Coordinator::Outcome formed = Join(kNodes, "", kNodes - 1);
  ASSERT_EQ(formed.messages.size(), static_cast<size_t>(kNodes));
  EXPECT_EQ(formed.messages[0].message->world().world_size(), 2 * kNodes);
  EXPECT_EQ(Lose(500).messages.size(), static_cast<size_t>(kNodes - 1));
  for (int session = kNodes; session > 1; --session) {
    if (session != 500) ASSERT_EQ(Join(session).begun, 0u);
  }
  const Coordinator::Outcome again = Join(1);
  ASSERT_EQ(again.begun, 2u);
  EXPECT_EQ(again.messages[498].session, 499u);
  EXPECT_EQ(again.messages[499].session, 501u);
}

}  // namespace
}  // namespace composer
