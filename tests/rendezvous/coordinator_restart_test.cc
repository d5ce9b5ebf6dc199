// Tests a coordinator that was started again, or was itself stopped for a while: what it learns from its nodes.
// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/coordinator.h"
#include "tests/rendezvous/coordinator_fixture.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

TEST_F(CoordinatorTest, ARestartedCoordinatorLearnsTheRunningWorldFromItsNodes) {
  const auto first = Reattach(1, In(7, 2, 3, "c0"));
  ASSERT_THAT(Receivers(first), ElementsAre(1));
  EXPECT_EQ(first.messages[0].message->reattached().generation(), 7u);
  EXPECT_EQ(first.restore, 7u);
  EXPECT_EQ(first.begun, 0u) << "keys open when all have told theirs";
  EXPECT_EQ(Reattach(2, In(7, 0, 3, "c0")).begun, 0u);
  const auto last = Reattach(3, In(7, 1, 3, "c0"));
  EXPECT_EQ(last.begun, 7u);
  EXPECT_TRUE(last.resumed);
  EXPECT_EQ(coordinator_.Roster(0, 10).members(2).base_rank(), 4);
  EXPECT_EQ(Report(2, 7, "rank 0: exit code 3").ended, 7u);
  Join(1);
  Join(2);
  EXPECT_THAT(Receivers(Join(3)), ElementsAre(2, 3, 1)) << "ranks stay";
  EXPECT_EQ(coordinator_.roster().last_generation, 1'000'000u) << "no number that another coordinator may have given";
}

TEST_F(CoordinatorTest, NodesThatDoNotComeBackEndTheWorldWhenGraceIsOver) {
  Reattach(1, In(7, 0));
  Reattach(2, In(7, 1));
  EXPECT_EQ(coordinator_.wake_at(), clock_.Now() + absl::Seconds(60));
  clock_.Advance(absl::Seconds(60));
  const auto over = Tick();
  EXPECT_EQ(over.ended, 7u);
  EXPECT_THAT(Receivers(over), ElementsAre(1, 2));
  EXPECT_EQ(over.why_ended, "1 of the 3 nodes of generation 7 did not come back to the rendezvous in time");
  Join(1);
  EXPECT_EQ(Join(2).begun, 1'000'000u);
}

TEST_F(CoordinatorTest, ANodeWhoseWorkersEndedMeanwhileEndsTheWorldForTheOthers) {
  Reattach(1, In(7, 0));
  const auto joined = Join(2, "", -1, In(7, 1));
  EXPECT_EQ(joined.ended, 7u);
  EXPECT_THAT(Receivers(joined), ElementsAre(1));
  const auto late = Reattach(3, In(7, 2));
  ASSERT_THAT(Receivers(late), ElementsAre(3));
  EXPECT_EQ(late.messages[0].message->generation_over().cause().message(), "node 1 (host2) joined again");
  Join(1);
  EXPECT_EQ(Join(3).begun, 1'000'000u) << "all of the last world are here";
}

TEST_F(CoordinatorTest, ASpareTellsThatAWorldRuns) {
  EXPECT_EQ(Join(4, "", -1, In(7, -1)).begun, 0u);
  EXPECT_TRUE(coordinator_.roster().running);
  Join(5);
  Join(6);
  clock_.Advance(absl::Seconds(59));
  EXPECT_EQ(Tick().begun, 0u) << "three wait, but generation 7 runs somewhere";
}

TEST_F(CoordinatorTest, AWorldMadeInIgnoranceGivesWayToTheNewest) {
  FormThree();
  const auto told = Reattach(4, In(7, 0, 2, "c0"));
  EXPECT_EQ(told.ended, 1u);
  EXPECT_THAT(Receivers(told), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(told.messages[3].message->reattached().generation(), 7u);
}

TEST_F(CoordinatorTest, AnOlderWorldIsOver) {
  FormThree();
  const auto told = Reattach(4, In(1, 0, 3, "another"));
  EXPECT_EQ(told.messages[0].message->generation_over().cause().message(),
            "generation 1 went on without this node: the newest is 1");
  EXPECT_TRUE(coordinator_.roster().running);
}

TEST_F(CoordinatorTest, AStallOfTheCoordinatorItselfLosesNobody) {
  FormThree();
  coordinator_.Stalled(clock_.Now());
  for (int session : {1, 2, 3}) EXPECT_EQ(Lose(session).ended, 0u);
  EXPECT_EQ(Reattach(11, In(1, 0), "1").messages[0].message->reattached().generation(), 1u);
  EXPECT_EQ(Reattach(12, In(1, 1), "2").begun, 0u) << "the keys were never gone";
  clock_.Advance(Coordinator::kStallAllowance);
  EXPECT_EQ(Tick().ended, 1u) << "the third did not come back";
}

// Found by simulation, seed 443,644: a rendezvous that waited for one node was frozen until behind the time that this
// one had. It woke, ended the world with the other one's connection broken unheard, and formed the next of spares: two
// ran.
TEST_F(CoordinatorTest, AStallDoesNotUseUpTheTimeOfNodesThatAreExpectedBack) {
  shows_life_ = true;
  Reattach(1, In(7, 0, 2, "c0"));
  Join(4);
  Join(5);
  clock_.Advance(absl::Seconds(61));
  coordinator_.Stalled(clock_.Now());
  EXPECT_EQ(Tick().ended, 0u) << "node 0 goes on, and may not be able to hear of an end";
  EXPECT_EQ(Lose(1).ended, 0u);
  EXPECT_EQ(Reattach(11, In(7, 0, 2, "c0"), "1").messages[0].message->reattached().generation(), 7u);
  clock_.Advance(Coordinator::kStallAllowance);
  const auto over = Tick();
  EXPECT_EQ(over.ended, 7u) << "node 1 has had its time, and more";
  EXPECT_THAT(Receivers(over), ElementsAre(11));
}

TEST_F(CoordinatorTest, ANewStreamOfANodeTakesOverItsSeatBeforeTheOldOneIsKnownDead) {
  FormThree();
  const auto again = Reattach(9, In(1, 1), "2");
  EXPECT_THAT(again.replaced, ElementsAre(2));
  EXPECT_EQ(again.ended, 0u);
  EXPECT_EQ(Lose(2).ended, 0u);
  EXPECT_THAT(Reattach(8, In(1, 1), "2").replaced, ElementsAre(8)) << "an older stream's message comes last";
  EXPECT_EQ(coordinator_.roster().present, 3);
}

// Found by simulation, seed 136,452: frozen right after its start, the coordinator woke after the deadline by which its
// nodes had to report.
TEST(RestartedCoordinatorTest, AStallGivesTheNodesTheirTimeAgain) {
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  Coordinator coordinator({.job = "job",
                           .incarnation = "c2",
                           .policy = {.min_nodes = 1, .max_nodes = 1},
                           .settled = start + absl::Seconds(5),
                           .numbering = {.random = 7, .may_be_first = false}});
  const absl::Time woken = start + absl::Seconds(8);
  coordinator.Stalled(woken);
  proto::Caller caller;
  caller.set_job("job");
  caller.set_incarnation("spare");
  proto::Join join;
  join.mutable_node()->set_node_id("spare");
  join.mutable_node()->set_node_rank(-1);
  join.mutable_node()->set_slots(1);
  EXPECT_EQ(coordinator.Join(1, caller, join, woken).begun, 0u) << "another node may tell of a world that runs";
  const absl::Time settled = woken + Coordinator::kStallAllowance;
  EXPECT_EQ(coordinator.wake_at(), settled);
  EXPECT_GT(coordinator.Tick(settled).begun, 0u);
  coordinator.Stalled(settled + absl::Hours(1));
  EXPECT_EQ(coordinator.roster().settled, settled) << "it had settled before";
}

}  // namespace
}  // namespace composer
