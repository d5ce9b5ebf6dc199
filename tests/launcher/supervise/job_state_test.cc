// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = JobState::Phase;

struct Describe {
  std::string operator()(const job_action::Print& a) const { return absl::StrCat("print ", a.text); }
  std::string operator()(const job_action::Join& a) const { return a.checkpointed ? "join checkpointed" : "join"; }
  std::string operator()(const job_action::StartWorkers&) const { return "start"; }
  std::string operator()(const job_action::Drain& a) const { return absl::StrCat("drain: ", a.reason); }
  std::string operator()(const job_action::SendSignal& a) const {
    return absl::StrCat("signal ", a.signal, a.only_unattached ? " to the unattached" : "");
  }
  std::string operator()(const job_action::EndWorkers& a) const { return absl::StrCat("end: ", a.cause); }
  std::string operator()(const job_action::MarkFailure&) const { return "mark failure"; }
  std::string operator()(const job_action::ReportCause& a) const {
    return absl::StrCat("report ", a.exit, a.certain ? "" : " (uncertain)", a.verdict ? " with a verdict" : "");
  }
  std::string operator()(const job_action::Announce& a) const { return absl::StrCat("announce ", a.exit); }
  std::string operator()(const job_action::AmendCause& a) const { return absl::StrCat("amend: ", a.cause); }
  std::string operator()(const job_action::LoseWorkers&) const { return "lose workers"; }
  std::string operator()(const job_action::RestartSpawner&) const { return "restart spawner"; }
  std::string operator()(const job_action::ArriveAtBarrier&) const { return "arrive"; }
  std::string operator()(const job_action::CloseGeneration&) const { return "close"; }
  std::string operator()(const job_action::Conclude& a) const {
    return absl::StrCat("conclude", a.announced ? " announced" : "", a.repeated ? " repeated" : "");
  }
  std::string operator()(const job_action::Repeat& a) const { return absl::StrCat("repeat ", a.over.generation); }
  std::string operator()(const job_action::Sweep&) const { return "sweep"; }
  std::string operator()(const job_action::LookForRoom& a) const { return absl::StrCat("look for room in ", a.folder); }
  std::string operator()(const job_action::SaveSummary&) const { return "save summary"; }
  std::string operator()(const job_action::Finish&) const { return "finish"; }
};

WorkerExit Exited(int rank, int code) { return {.rank = rank, .status = {.code = code}}; }
WorkerExit Killed(int rank) { return {.rank = rank, .status = {.signal = SIGKILL}}; }

class JobStateTest : public testing::Test {
 protected:
  std::vector<std::string> On(const JobEvent& event) {
    facts_.exits = exits_;
    std::vector<std::string> texts;
    for (const JobAction& action : state_.On(event, facts_, now_)) texts.push_back(std::visit(Describe(), action));
    return texts;
  }
  void Advance(absl::Duration duration) { now_ += duration; }

  void Run(int nodes = 1, uint64_t generation = 1) {
    exits_.clear();
    facts_ = {.all_gone = false, .all_attached = true, .all_started = true, .trained = true, .progress = true};
    EXPECT_THAT(On(job_event::WorldJoined{generation, nodes, 2 * nodes, {}}), ElementsAre("start"));
    EXPECT_EQ(state_.phase(), Phase::kRunning);
  }
  std::vector<std::string> Exit(const WorkerExit& exit, bool last = false) {
    exits_.push_back(exit);
    facts_.all_gone = last;
    return On(job_event::WorkersChanged{});
  }
  std::vector<std::string> Over(const std::string& cause, bool collateral = false) {
    return On(job_event::GenerationOver{state_.generation(), {.cause = cause, .collateral = collateral}});
  }

  JobState state_{{.job = true, .max_restarts = 3, .min_nodes = 1, .run_folder = "/run"}};
  WorkerFacts facts_;
  std::vector<WorkerExit> exits_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(JobStateTest, AJobThatIsDoneEnds) {
  Run();
  EXPECT_THAT(Exit(Exited(0, 0)), IsEmpty());
  EXPECT_THAT(Exit(Exited(1, 0), true), ElementsAre("mark failure", "close", "conclude", "finish"));
  EXPECT_EQ(state_.phase(), Phase::kFinished);
  EXPECT_EQ(state_.exit_code(), 0);
  EXPECT_THAT(On(job_event::StopAsked{SIGTERM, "SIGTERM"}), IsEmpty()) << "nothing has an effect any more";
}

TEST_F(JobStateTest, OnSeveralNodesItWaitsForTheOthers) {
  Run(2);
  Exit(Exited(0, 0));
  EXPECT_THAT(Exit(Exited(1, 0), true), ElementsAre("mark failure", "arrive"));
  EXPECT_EQ(state_.phase(), Phase::kDone);
  EXPECT_THAT(On(job_event::BarrierPassed{7, absl::OkStatus()}), IsEmpty()) << "another generation's";
  EXPECT_THAT(On(job_event::BarrierPassed{1, absl::OkStatus()}), ElementsAre("close", "conclude", "finish"));
}

TEST_F(JobStateTest, OfAnotherNodesFailureAfterTheEndTheCauseIsAwaited) {
  Run(2);
  Exit(Exited(0, 0));
  Exit(Exited(1, 0), true);
  EXPECT_THAT(On(job_event::BarrierPassed{1, absl::AbortedError("gone")}), IsEmpty());
  EXPECT_EQ(state_.NextWake(), now_ + JobState::kExplainWait);
  EXPECT_THAT(Over("node b: rank 2 was killed"),
              ElementsAre("print generation 1 is over: node b: rank 2 was killed", "print node b: rank 2 was killed",
                          "close", "conclude announced", "sweep", "join", "save summary"));
  EXPECT_EQ(state_.phase(), Phase::kJoining);
}

TEST_F(JobStateTest, TheFirstFailureEndsTheGenerationAndARestartFollows) {
  Run();
  EXPECT_THAT(Exit(Killed(1)),
              ElementsAre("mark failure", "report 0 with a verdict", "end: rank 1 was killed by SIGKILL (9)",
                          "signal 15 to the unattached", "announce 0"));
  EXPECT_EQ(state_.NextWake(), now_ + JobState::kLeaveLimit);
  Advance(JobState::kLeaveLimit);
  EXPECT_THAT(On(job_event::TimePassed{}), ElementsAre("signal 9"));
  EXPECT_THAT(Exit(Exited(0, 69), true), ElementsAre("close", "conclude announced", "sweep", "join", "save summary"));
  EXPECT_EQ(state_.tally().restarts, 1);
  EXPECT_EQ(state_.NextWake(), absl::InfiniteFuture()) << "no deadline of the old generation is left";
}

TEST_F(JobStateTest, ProgramsThatOnlyKnowSignalsHaveTime) {
  state_ = JobState({.job = false, .max_restarts = 0});
  Run();
  facts_.all_attached = false;
  Exit(Killed(1));
  EXPECT_EQ(state_.NextWake(), now_ + JobState::kSignalLimit);
}

TEST_F(JobStateTest, AnExitThatAnotherNodeMayExplainWaits) {
  Run(2);
  EXPECT_THAT(Exit(Exited(0, 69)), ElementsAre("mark failure", "report 0 (uncertain)", "end: rank 0 exited with 69",
                                               "signal 15 to the unattached"));
  EXPECT_THAT(Exit(Exited(1, 69), true), IsEmpty());
  EXPECT_EQ(state_.phase(), Phase::kEnding);
  EXPECT_THAT(Over("node b (vm) is gone"),
              ElementsAre("print generation 1 is over: node b (vm) is gone", "print node b (vm) is gone", "close",
                          "conclude announced", "sweep", "join", "save summary"));
}

TEST_F(JobStateTest, WithoutAnExplanationItIsTheCauseItself) {
  Run(2);
  Exit(Exited(0, 69));
  Exit(Exited(1, 69), true);
  Advance(JobState::kExplainWait);
  EXPECT_THAT(On(job_event::TimePassed{}),
              ElementsAre("close", "announce 0", "conclude announced", "sweep", "join", "save summary"));
}

TEST_F(JobStateTest, AVerdictThatComesLateAmendsWhatWasNoted) {
  Run(2);
  Exit(Killed(0));
  Exit(Killed(1), true);
  ASSERT_EQ(state_.phase(), Phase::kJoining);
  job_event::GenerationOver over{1, {.cause = "node a: rank 3 exited with 64"}};
  over.remote.verdict = Verdict{.next = NextStep::kGiveUp, .exit_code = 64};
  EXPECT_THAT(On(over), ElementsAre("print generation 1 is over: node a: rank 3 exited with 64",
                                    "print node a: rank 3 exited with 64", "amend: node a: rank 3 exited with 64",
                                    "conclude announced", "finish"));
  EXPECT_EQ(state_.exit_code(), 64);
}

TEST_F(JobStateTest, TheEndOfAWorldThatComesBeforeTheWorldIsNotLost) {
  Run(2);
  Exit(Killed(0));
  Exit(Killed(1), true);
  const job_event::GenerationOver over{2, {.cause = "node b: rank 2 exited with 70"}};
  EXPECT_THAT(On(over), IsEmpty()) << "its world is still on the way to this thread";
  EXPECT_THAT(On(job_event::WorldJoined{2, 2, 4, {}}), ElementsAre("start", "repeat 2"));
  exits_.clear();
  facts_.all_gone = false;
  EXPECT_THAT(On(over), testing::Contains("end: node b: rank 2 exited with 70"));
}

TEST_F(JobStateTest, AWorldThatOthersGaveUpBeforeItWasJoinedEndsTheJob) {
  Run(2);
  Exit(Killed(0));
  Exit(Killed(1), true);
  ASSERT_EQ(state_.phase(), Phase::kJoining);
  job_event::GenerationOver over{2, {.cause = "node b: rank 2 exited with 70"}};
  over.remote.verdict = Verdict{.next = NextStep::kGiveUp, .exit_code = 93};
  EXPECT_THAT(On(over), ElementsAre("print node b: rank 2 exited with 70", "conclude announced", "finish"));
  EXPECT_EQ(state_.exit_code(), 93);
}

TEST_F(JobStateTest, APreemptionDrainsAndASecondSignalKills) {
  Run();
  EXPECT_THAT(On(job_event::StopAsked{SIGTERM, "SIGTERM"}),
              ElementsAre("print SIGTERM: the workers checkpoint and stop; again to kill them now", "drain: SIGTERM"));
  Advance(absl::Seconds(2));
  EXPECT_THAT(On(job_event::StopAsked{SIGTERM, "SIGTERM"}), ElementsAre("print SIGTERM again: killing all workers"));
  EXPECT_EQ(state_.NextWake(), absl::InfinitePast());
  EXPECT_THAT(On(job_event::TimePassed{}), ElementsAre("signal 9"));
}

TEST_F(JobStateTest, WorkersThatStillStartAreNotWaitedFor) {
  Run();
  facts_.all_started = false;
  On(job_event::StopAsked{SIGTERM, "SIGTERM"});
  Advance(JobState::kStartLimit);
  EXPECT_THAT(
      On(job_event::TimePassed{}),
      ElementsAre("print the workers have not begun to train: they are killed, there is nothing to save", "signal 9"));
}

TEST_F(JobStateTest, ACheckpointedStopEndsWith75) {
  Run();
  On(job_event::StopAsked{kNoticeSignal, "the spot instance ends"});
  Exit(Exited(0, 75));
  EXPECT_THAT(Exit(Exited(1, 75), true), ElementsAre("mark failure", "close", "conclude", "finish"));
  EXPECT_EQ(state_.exit_code(), 75);
}

TEST_F(JobStateTest, WhileItJoinsAStopEndsItAtOnce) {
  EXPECT_THAT(On(job_event::StopAsked{SIGINT, "SIGINT"}), ElementsAre("conclude", "finish"));
  EXPECT_EQ(state_.phase(), Phase::kFinished);
}

TEST_F(JobStateTest, AResizeDrainsAndCostsNothing) {
  Run();
  EXPECT_THAT(On(job_event::ResizeAsked{9, "the world grows", true}), IsEmpty()) << "another generation's";
  EXPECT_THAT(On(job_event::ResizeAsked{1, "the world grows", true}),
              ElementsAre("print the world grows: the workers checkpoint and start again", "drain: the world grows"));
  Exit(Exited(0, 75));
  EXPECT_THAT(Exit(Exited(1, 75), true),
              ElementsAre("mark failure", "close", "conclude", "sweep", "join checkpointed", "save summary"));
  EXPECT_EQ(state_.tally().restarts, 0);
}

// Found by the simulator: a node that was done waited for those that were ended so that the world could grow, and they
// for it.
TEST_F(JobStateTest, ANodeThatIsDoneFollowsAResizeThatEndsTheOthers) {
  for (const bool heard_before_the_end : {false, true}) {
    SCOPED_TRACE(heard_before_the_end);
    state_ = JobState({.job = true, .max_restarts = 3, .min_nodes = 1, .run_folder = "/run"});
    Run(2);
    if (heard_before_the_end) On(job_event::ResizeAsked{1, "the world grows", false});
    Exit(Exited(0, 0));
    auto actions = Exit(Exited(1, 0), true);
    if (!heard_before_the_end) {
      EXPECT_EQ(state_.phase(), Phase::kDone);
      EXPECT_THAT(On(job_event::ResizeAsked{1, "the world grows", true}), IsEmpty())
          << "with a checkpoint, the others' workers come to the end as well";
      actions = On(job_event::ResizeAsked{1, "the world grows", false});
      actions.erase(actions.begin());  // what is printed
    }
    EXPECT_THAT(actions, ElementsAre("close", "conclude", "sweep", "join", "save summary"));
    EXPECT_EQ(state_.phase(), Phase::kJoining);
    EXPECT_EQ(state_.tally().restarts, 0);
    EXPECT_THAT(On(job_event::BarrierPassed{1, absl::AbortedError("over")}), IsEmpty());
  }
}

// Found by the simulator: a node that was told to stop and whose workers were done left without a word, and the others
// waited for it for ever.
TEST_F(JobStateTest, ANodeThatIsStoppedAndDoneTellsTheOthersAndWaitsForThemABit) {
  Run(2);
  On(job_event::StopAsked{SIGTERM, "SIGTERM"});
  Exit(Exited(0, 0));
  EXPECT_THAT(Exit(Exited(1, 0), true), ElementsAre("mark failure", "arrive"));
  EXPECT_EQ(state_.NextWake(), now_ + JobState::kExplainWait);
  JobState early = state_;
  EXPECT_THAT(On(job_event::BarrierPassed{1, absl::OkStatus()}), ElementsAre("close", "conclude", "finish"));
  state_ = early;
  now_ += JobState::kExplainWait;
  EXPECT_THAT(On(job_event::TimePassed{}), ElementsAre("close", "conclude", "finish"));
  EXPECT_EQ(state_.exit_code(), 0);
}

TEST_F(JobStateTest, ARankThatWasAskedToStopDrainsTheOthers) {
  Run();
  EXPECT_THAT(Exit(Exited(1, 75)), ElementsAre("drain: rank 1 was asked to stop"));
}

TEST_F(JobStateTest, TheSpawnersDeathCostsARestartAndManyEndTheJob) {
  Run();
  EXPECT_THAT(On(job_event::SpawnerLost{"composer-spawn was killed", true}), ElementsAre("restart spawner"));
  EXPECT_THAT(On(job_event::SpawnerRestarted{absl::OkStatus()}), ElementsAre("lose workers"));
  for (int i = 0; i < JobState::kMaxQuickDeaths; ++i) On(job_event::SpawnerLost{"composer-spawn was killed", true});
  EXPECT_THAT(
      On(job_event::SpawnerLost{"composer-spawn was killed", true}),
      ElementsAre("print composer-spawn was killed again and again; giving up", "conclude announced", "finish"));
  EXPECT_EQ(state_.exit_code(), 70);
}

TEST_F(JobStateTest, ASpawnerThatCannotBeStartedAgainEndsTheJob) {
  EXPECT_THAT(On(job_event::SpawnerLost{"composer-spawn was killed", false}),
              ElementsAre("print composer-spawn was killed; a process of the job cannot be killed",
                          "conclude announced", "finish"));
  state_ = JobState({.job = true});
  On(job_event::SpawnerLost{"composer-spawn was killed", true});
  EXPECT_THAT(
      On(job_event::SpawnerRestarted{absl::ResourceExhaustedError("fork")}),
      ElementsAre("print composer-spawn was killed and cannot be started again: fork", "conclude announced", "finish"));
}

TEST_F(JobStateTest, AFullDiskIsWaitedForAndReportedOnce) {
  std::vector<std::string> after;
  WorkerExit full = Exited(0, 70);
  full.last_line = "cannot write /run/checkpoints/a: No space left on device";
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    Run(1, generation);
    facts_.progress = false;
    const std::vector<std::string> first = Exit(full);
    EXPECT_EQ(testing::Value(first, testing::Contains("announce 0")), generation == 1) << absl::StrJoin(first, "; ");
    after = Exit(Exited(1, 69), true);
    if (state_.NextWake() != absl::InfiniteFuture()) {
      now_ = state_.NextWake();
      after = On(job_event::TimePassed{});
    }
  }
  EXPECT_TRUE(state_.stalled());
  EXPECT_THAT(after, testing::Contains(testing::StartsWith("look for room in /run/checkpoints")));
  EXPECT_THAT(On(job_event::RoomLooked{false}), IsEmpty());
  EXPECT_EQ(state_.NextWake(), now_ + JobState::kRoomLook);
  Advance(JobState::kRoomLook);
  EXPECT_THAT(On(job_event::TimePassed{}), testing::Contains(testing::StartsWith("look for room")));
  EXPECT_THAT(On(job_event::RoomLooked{true}), ElementsAre("join"));
  On(job_event::CheckpointSaved{});
  EXPECT_FALSE(state_.stalled()) << "the next stall is reported again";
}

TEST_F(JobStateTest, WhatTheRendezvousRefusesIsTheUsersMistake) {
  const struct {
    absl::Status status;
    int code;
  } cases[] = {{absl::InvalidArgumentError("nproc differs"), 64},
               {absl::UnauthenticatedError("another token"), 64},
               {absl::UnavailableError("no answer"), 69}};
  for (const auto& c : cases) {
    state_ = JobState({.job = true, .max_restarts = 3});
    EXPECT_THAT(On(job_event::JoinFailed{c.status}),
                ElementsAre(absl::StrCat("print cannot join: ", c.status.message()), "conclude announced", "finish"));
    EXPECT_EQ(state_.exit_code(), c.code);
  }
}

TEST_F(JobStateTest, ASpareOfADoneJobIsDone) {
  EXPECT_THAT(
      On(job_event::JoinFailed{absl::AlreadyExistsError("the job is done")}),
      ElementsAre("print the job is done; this node waited as a spare and was not needed", "conclude", "finish"));
  EXPECT_EQ(state_.exit_code(), 0);
}

TEST_F(JobStateTest, ACopyIsTheSameState) {
  Run();
  JobState copy = state_;
  Exit(Killed(0));
  EXPECT_EQ(state_.phase(), Phase::kEnding);
  EXPECT_EQ(copy.phase(), Phase::kRunning);
}

}  // namespace
}  // namespace composer
