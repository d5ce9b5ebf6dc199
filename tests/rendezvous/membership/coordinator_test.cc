// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/coordinator.h"

#include "tests/rendezvous/coordinator_fixture.h"

namespace composer {
namespace {

using ::testing::ElementsAre;

TEST_F(CoordinatorTest, FormsAtMaxNodesWithRanksAndReason) {
  EXPECT_THAT(Receivers(Join(1)), ElementsAre());
  EXPECT_EQ(coordinator_.wake_at(), absl::InfiniteFuture());
  EXPECT_THAT(Receivers(Join(2)), ElementsAre());
  EXPECT_EQ(coordinator_.wake_at(), clock_.Now() + absl::Seconds(1));
  const Coordinator::Outcome outcome = Join(3, "", 0);
  EXPECT_EQ(outcome.begun, 1u);
  ASSERT_THAT(Receivers(outcome), ElementsAre(3, 1, 2));
  const proto::World& world = outcome.messages[2].message->world();
  EXPECT_EQ(world.generation(), 1u);
  EXPECT_EQ(world.id(), "c1-1");
  EXPECT_EQ(world.world_size(), 6);
  EXPECT_EQ(world.nodes(), 3);
  EXPECT_EQ(world.node_rank(), 2);
  EXPECT_EQ(world.base_rank(), 4);
  EXPECT_EQ(world.reason(), "all 3 nodes are here");
  EXPECT_EQ(coordinator_.wake_at(), absl::InfiniteFuture());
}

TEST_F(CoordinatorTest, LastCallEndsWithATick) {
  Join(1);
  Join(2);
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(Tick().begun, 0u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Tick().begun, 1u);
}

TEST_F(CoordinatorTest, TheFirstCauseIsToldToTheOthersAndOthersBesideItAreDropped) {
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

TEST_F(CoordinatorTest, AnExitThatExplainsTheFirstOneIsToldToAll) {
  FormThree();
  proto::FailureCause collateral;
  collateral.set_message("rank 5: its peer is gone");
  collateral.set_collateral(true);
  coordinator_.GenerationEnded(3, 1, collateral, clock_.Now());
  Join(3);
  const Coordinator::Outcome better = Report(2, 1, "rank 3: signal 9");
  EXPECT_EQ(better.ended, 0u) << "it was over already";
  ASSERT_THAT(Receivers(better), ElementsAre(1, 3)) << "also who waits for the next world";
  EXPECT_EQ(better.messages[0].message->generation_over().cause().message(), "rank 3: signal 9");
  EXPECT_THAT(Receivers(Report(1, 1, "rank 0: exit code 1")), ElementsAre());
  EXPECT_EQ(Reattach(12, In(1, 1), "2").messages[0].message->generation_over().cause().message(), "rank 3: signal 9");
}

TEST_F(CoordinatorTest, ANodeThatIsFoundLostExplainsWhatItsPeersSaw) {
  FormThree();
  proto::FailureCause collateral;
  collateral.set_message("rank 5: its peer is gone");
  collateral.set_collateral(true);
  coordinator_.GenerationEnded(3, 1, collateral, clock_.Now());
  const Coordinator::Outcome lost = Lose(1);
  ASSERT_THAT(Receivers(lost), ElementsAre(2, 3));
  EXPECT_EQ(lost.messages[0].message->generation_over().cause().node_id(), "1");
  EXPECT_THAT(Receivers(Lose(2)), ElementsAre());
}

TEST_F(CoordinatorTest, AWorldThatReachedNobodyDoesNotCostTheRanks) {
  FormThree();
  Report(1, 1, "x");
  for (int session = 1; session <= 3; ++session) {
    proto::Join join;
    *join.mutable_node() = Info(session, "");
    *join.mutable_last() = In(1, session - 1);
    coordinator_.Join(session, FromJob(), join, clock_.Now());  // generation 2 forms, and its message is lost
  }
  ASSERT_EQ(coordinator_.roster().last_generation, 2u);
  for (int session : {1, 2, 3}) Lose(session);
  clock_.Advance(absl::Minutes(2));
  Join(13, "3", -1, In(1, 2));
  Join(12, "2", -1, In(1, 1));
  EXPECT_THAT(Receivers(Join(11, "1", -1, In(1, 0))), ElementsAre(11, 12, 13));
}

TEST_F(CoordinatorTest, MembersOfAnotherWorldOfTheSameJobAreNewcomers) {  // found by simulation: seed 43,382
  Reattach(1, In(7, 0));
  Reattach(2, In(7, 1));
  Reattach(3, In(7, 2));
  Report(3, 7, "x");
  Lose(3);
  Join(1, "", -1, In(7, 0));
  Join(4, "", -1, In(5, 2, 3, "c0"));
  EXPECT_THAT(Receivers(Join(2, "", -1, In(7, 1))), ElementsAre(1, 2, 4));
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
  EXPECT_EQ(Join(2, "", -1, {}).ended, 0u) << "a doubled Join from before the world is stale";
  const Coordinator::Outcome outcome = Rejoin(2, In(1, 1));
  EXPECT_EQ(outcome.ended, 1u);
  EXPECT_EQ(outcome.why_ended, "node 1 (host2) joined again");
  EXPECT_THAT(Receivers(outcome), ElementsAre(1, 3));
}

TEST_F(CoordinatorTest, ANodeThatCheckpointedEndsNobodyWhoStillSaves) {
  FormThree();
  proto::Join join;
  *join.mutable_node() = Info(2, "");
  *join.mutable_last() = In(1, 1);
  join.set_checkpointed(true);
  const Coordinator::Outcome first = Note(coordinator_.Join(2, FromJob(), join, clock_.Now()));
  EXPECT_EQ(first.ended, 0u) << "the other nodes leave by themselves";
  EXPECT_THAT(Receivers(first), ElementsAre());
  EXPECT_EQ(coordinator_.Leave(3, /*done=*/false, clock_.Now()).ended, 0u) << "the node that had to stop";
  const Coordinator::Outcome last = Rejoin(1, In(1, 0));
  EXPECT_EQ(last.ended, 1u);
  EXPECT_EQ(last.begun, 2u);
  EXPECT_THAT(Receivers(last), ElementsAre(1, 2));
}

TEST_F(CoordinatorTest, AFailureAfterOneHasCheckpointedIsAFailure) {
  FormThree();
  proto::Join join;
  *join.mutable_node() = Info(2, "");
  *join.mutable_last() = In(1, 1);
  join.set_checkpointed(true);
  Note(coordinator_.Join(2, FromJob(), join, clock_.Now()));
  const Coordinator::Outcome failed = Report(1, 1, "rank 0: signal 11");
  EXPECT_EQ(failed.ended, 1u);
  EXPECT_THAT(Receivers(failed), ElementsAre(3));
}

TEST_F(CoordinatorTest, LateNodeWaitsAndFillsThePlaceOfALostOne) {
  FormThree();
  const Coordinator::Outcome late = Join(4);
  ASSERT_THAT(Receivers(late), ElementsAre(4));
  EXPECT_EQ(late.messages[0].message->spare().newest().generation(), 1u);
  EXPECT_EQ(late.messages[0].message->spare().reason(), "generation 1 runs on 3 of at most 3 nodes");
  Lose(1);
  Join(2);
  const Coordinator::Outcome formed = Join(3);
  EXPECT_THAT(Receivers(formed), ElementsAre(2, 3, 4));
  EXPECT_EQ(formed.messages[0].message->world().reason(), "all 3 nodes are here");
}

TEST_F(CoordinatorTest, LeaveEndsTheGenerationOnlyWhenAllHaveLeft) {
  FormThree();
  EXPECT_EQ(coordinator_.Leave(1, /*done=*/false, clock_.Now()).ended, 0u);
  EXPECT_EQ(coordinator_.Leave(2, /*done=*/false, clock_.Now()).ended, 0u);
  EXPECT_EQ(Lose(1).ended, 0u) << "its stream ends after Leave";
  const Coordinator::Outcome last = coordinator_.Leave(3, /*done=*/false, clock_.Now());
  EXPECT_EQ(last.ended, 1u);
  EXPECT_THAT(Receivers(last), ElementsAre());
}

TEST_F(CoordinatorTest, SparesOfADoneJobAreSentAwayAndFormNoWorld) {
  FormThree();
  Join(4);
  Join(5);
  coordinator_.Leave(1, /*done=*/true, clock_.Now());
  ASSERT_THAT(Receivers(coordinator_.Leave(2, /*done=*/true, clock_.Now())), ElementsAre()) << "node 3 is not done yet";
  const Coordinator::Outcome last = coordinator_.Leave(3, /*done=*/true, clock_.Now());
  ASSERT_THAT(Receivers(last), testing::UnorderedElementsAre(4, 5));
  EXPECT_TRUE(last.messages[0].last);
  EXPECT_TRUE(last.messages[0].message->refusal().done());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Tick().begun, 0u);
}

TEST_F(CoordinatorTest, SparesTakeOverAJobThatIsNotDone) {
  FormThree();
  Join(4);
  Join(5);
  for (const int session : {1, 2, 3}) coordinator_.Leave(session, /*done=*/false, clock_.Now());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Tick().begun, 2u);
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

class GrowTest : public CoordinatorTest {
 protected:
  GrowTest() : CoordinatorTest({1, 3, absl::Seconds(1)}) {}
};

// Found by the simulator: the place of a node that was done was given to a spare, and the others had to start again.
TEST_F(GrowTest, AWorldThatIsAboutToBeDoneDoesNotGrow) {
  for (int session = 1; session <= 4; ++session) Join(session);
  ASSERT_EQ(coordinator_.roster().members, 3);
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(Receivers(coordinator_.Leave(1, /*done=*/true, clock_.Now())), ElementsAre());
  EXPECT_THAT(Receivers(Tick()), ElementsAre());
  coordinator_.Leave(2, /*done=*/true, clock_.Now());
  EXPECT_TRUE(coordinator_.Leave(3, /*done=*/true, clock_.Now()).messages[0].message->refusal().done());
}

TEST_F(GrowTest, TheWorldIsAskedOnceAndGrowsWhenAllHaveEndedTheirWorkers) {
  Join(1);
  Join(2);
  clock_.Advance(absl::Seconds(1));
  ASSERT_EQ(Tick().begun, 1u);
  Join(3);
  EXPECT_EQ(coordinator_.wake_at(), clock_.Now() + kGrowSettle);
  clock_.Advance(kGrowSettle);
  const auto asked = Tick();
  ASSERT_THAT(Receivers(asked), ElementsAre(1, 2));
  EXPECT_TRUE(asked.messages[0].message->resize().checkpoint());
  EXPECT_EQ(asked.messages[0].message->resize().reason(), "the world grows from 2 to 3 of at most 3 nodes");
  EXPECT_THAT(Receivers(Tick()), ElementsAre());
  const auto back = Reattach(11, In(1, 0, 2), "1");
  ASSERT_THAT(Receivers(back), ElementsAre(11, 11)) << "it may have missed the word on its old stream";
  EXPECT_TRUE(back.messages[1].message->has_resize());
  const auto one = Rejoin(2, In(1, 1, 2));
  EXPECT_EQ(one.ended, 0u) << "node 1 may still be saving";
  const auto both = Rejoin(11, In(1, 0, 2));
  EXPECT_EQ(both.ended, 1u);
  EXPECT_EQ(both.begun, 2u);
  EXPECT_THAT(Receivers(both), ElementsAre(11, 2, 3));
}

TEST_F(GrowTest, AFailureWhileGrowingIsAFailure) {
  Join(1);
  Join(2);
  clock_.Advance(absl::Seconds(1));
  Tick();
  Join(3);
  clock_.Advance(kGrowSettle);
  Tick();
  Rejoin(2, In(1, 1, 2));
  EXPECT_EQ(Report(1, 1, "rank 0: signal 11").ended, 1u);
  EXPECT_EQ(Rejoin(1, In(1, 0, 2)).begun, 2u);
}

TEST_F(CoordinatorTest, ALateNodeIsToldTheJobsRestarts) {
  proto::Join join;
  *join.mutable_node() = Info(1, "", 0);
  join.mutable_tally()->set_restarts(2);
  join.mutable_tally()->set_user_error("\xff bad");
  Note(coordinator_.Join(1, FromJob(), join, clock_.Now()));
  *join.mutable_node() = Info(2, "", 1);
  join.mutable_tally()->set_restarts(5);
  Note(coordinator_.Join(2, FromJob(), join, clock_.Now()));
  *join.mutable_node() = Info(3, "", 2);
  join.clear_tally();
  const Coordinator::Outcome formed = Note(coordinator_.Join(3, FromJob(), join, clock_.Now()));
  ASSERT_EQ(formed.messages.size(), 3u);
  for (const auto& out : formed.messages) {
    EXPECT_EQ(out.message->world().tally().restarts(), 5);
    EXPECT_EQ(out.message->world().tally().user_error(), "? bad");
  }
}

TEST_F(CoordinatorTest, WhoLooksAsksTheNodesOfThePageButNotAtOnceAgain) {
  FormThree();
  EXPECT_THAT(Receivers(coordinator_.Look(0, 2, clock_.Now())), ElementsAre(1, 2));
  EXPECT_THAT(Receivers(coordinator_.Look(0, 1000, clock_.Now())), ElementsAre(3)) << "the others were just asked";
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(Receivers(coordinator_.Look(2, 5, clock_.Now())), ElementsAre(3));
  EXPECT_TRUE(coordinator_.Look(3, 5, clock_.Now()).messages.empty());
  EXPECT_TRUE(coordinator_.Look(-7, -1, clock_.Now()).messages.empty());

  EXPECT_FALSE(coordinator_.Roster(0, 10).members(1).has_report());
  proto::NodeReport report;
  report.set_state("running\xff");
  report.add_ranks()->set_step(7);
  coordinator_.Report(2, report, clock_.Now());
  clock_.Advance(absl::Seconds(3));
  coordinator_.Look(0, 0, clock_.Now());
  const proto::RosterReply roster = coordinator_.Roster(0, 10);
  ASSERT_EQ(roster.members_size(), 3);
  EXPECT_EQ(roster.members(1).report().state(), "running?");
  EXPECT_EQ(roster.members(1).report().ranks(0).step(), 7);
  EXPECT_EQ(roster.members(1).report_age_seconds(), 3.0);
  EXPECT_FALSE(roster.members(0).has_report());

  report.set_state("over");
  for (int i = 0; i < 2000; ++i) report.add_ranks();
  coordinator_.Report(2, report, clock_.Now());
  coordinator_.Report(99, {}, clock_.Now());
  EXPECT_EQ(coordinator_.Roster(0, 10).members(1).report().state(), "running?") << "no node has so many ranks";
  Lose(2);
  EXPECT_FALSE(coordinator_.Roster(0, 10).members(1).connected());
  EXPECT_TRUE(coordinator_.Look(1, 1, clock_.Now() + absl::Seconds(9)).messages.empty()) << "it is not here";
}

TEST_F(CoordinatorTest, TimeThatJumpsBackStandsStill) {
  Join(1);
  Join(2);
  const absl::Time deadline = coordinator_.wake_at();
  EXPECT_EQ(coordinator_.Tick(clock_.Now() - absl::Hours(1)).begun, 0u);
  EXPECT_EQ(coordinator_.wake_at(), deadline);
  EXPECT_EQ(Note(coordinator_.Tick(deadline)).begun, 1u);
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
  EXPECT_LT(formed.messages[0].message->ByteSizeLong(), 100u) << "does not grow with the world";
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
