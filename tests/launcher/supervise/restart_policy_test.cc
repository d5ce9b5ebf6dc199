// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/restart_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

WorkerExit Code(int rank, int code) { return {.rank = rank, .status = {.code = code}}; }
WorkerExit Signal(int rank, int signal) { return {.rank = rank, .status = {.signal = signal}}; }
WorkerExit EndedByUs(int rank, int signal) { return {.rank = rank, .status = {.signal = signal}, .ended_by_us = true}; }
WorkerExit Hung(int rank) {
  return {.rank = rank, .status = {.signal = 9}, .ended_by_us = true, .hang = "no step for 21s"};
}

GenerationResult Exits(std::vector<WorkerExit> exits) { return {.exits = std::move(exits)}; }
GenerationResult Stopped(int signal, bool checkpoints, std::vector<WorkerExit> exits) {
  return {.exits = std::move(exits), .stop_signal = signal, .checkpoints_on_stop = checkpoints};
}
GenerationResult SecondSignal(int signal, std::vector<WorkerExit> exits) {
  GenerationResult result = Stopped(signal, true, std::move(exits));
  result.killed = true;
  return result;
}

struct Case {
  const char* name;
  GenerationResult result;
  RestartBudget budget;
  NextStep next;
  int exit_code;
  int first_cause;
  int spent;
};

TEST(RestartPolicyTest, Table) {
  const RestartBudget three = {.max_restarts = 3}, none = {.max_restarts = 0};
  const RestartBudget last = {.max_restarts = 3, .tally = {.spent = 3}};
  GenerationResult progress = Exits({Signal(0, 9)});
  progress.progress = true;
  GenerationResult remote = Exits({EndedByUs(0, 9), Code(1, 69)});
  remote.exits[1].ended_by_us = true;
  remote.remote = RemoteEnd{.cause = "node b: rank 5 exited with 70"};
  const std::vector<Case> cases = {
      {"all done", Exits({Code(0, 0), Code(1, 0)}), three, NextStep::kDone, 0, -1, 0},
      {"killed", Exits({Signal(1, 9), Code(0, 69)}), three, NextStep::kRestart, 0, 0, 1},
      {"69 seen first is explained by a later kill", Exits({Code(0, 69), Signal(1, 9)}), three, NextStep::kRestart, 0,
       1, 1},
      {"only 69", Exits({Code(1, 69), Code(0, 69)}), three, NextStep::kRestart, 0, 0, 1},
      {"only 69 without budget", Exits({Code(1, 69)}), none, NextStep::kGiveUp, 69, 0, 0},
      {"first failure by time gives the code", Exits({Code(1, 3), Code(0, 4)}), none, NextStep::kGiveUp, 3, 0, 0},
      {"signal without budget", Exits({Code(0, 0), Signal(1, 11)}), none, NextStep::kGiveUp, 139, 1, 0},
      {"those we ended are collateral", Exits({EndedByUs(0, 9), Code(1, 70)}), none, NextStep::kGiveUp, 70, 1, 0},
      {"user error is never retried", Exits({Code(0, 64), Code(1, 69)}), three, NextStep::kGiveUp, 64, 0, 0},
      {"93 is never retried", Exits({Code(0, 93)}), three, NextStep::kGiveUp, 93, 0, 0},
      {"budget spent", Exits({Code(0, 70)}), last, NextStep::kGiveUp, 93, 0, 3},
      {"progress refills the budget", progress, last, NextStep::kRestart, 0, 0, 1},
      {"hung worker is the cause", Exits({EndedByUs(1, 9), Hung(0)}), three, NextStep::kRestart, 0, 1, 1},
      {"hung without budget", Exits({Hung(0)}), none, NextStep::kGiveUp, 70, 0, 0},
      {"another node's failure", remote, three, NextStep::kRestart, 0, -1, 1},
      {"all preempted", Exits({Code(0, 75), Code(1, 75)}), three, NextStep::kPreempted, 75, -1, 0},
      {"stop answered", Stopped(15, true, {Code(0, 75), Code(1, 75)}), three, NextStep::kPreempted, 75, -1, 0},
      {"stop came after the end", Stopped(15, true, {Code(0, 0)}), three, NextStep::kDone, 0, -1, 0},
      {"stop while no worker runs", Stopped(15, true, {}), three, NextStep::kPreempted, 75, -1, 0},
      {"stop and a crash", Stopped(15, true, {Signal(0, 11), Code(1, 69)}), three, NextStep::kPreempted, 75, 0, 1},
      {"stop and a crash without budget", Stopped(15, true, {Signal(0, 11)}), none, NextStep::kGiveUp, 139, 0, 0},
      {"stop and a user error", Stopped(15, true, {Code(0, 64)}), three, NextStep::kGiveUp, 64, 0, 0},
      {"script ended by the forwarded signal", Stopped(15, false, {EndedByUs(0, 15)}), none, NextStep::kGiveUp, 143, -1,
       0},
      {"script that leaves with 0 on SIGINT", Stopped(2, false, {Code(0, 0)}), none, NextStep::kGiveUp, 130, -1, 0},
      {"program that checkpoints on SIGTERM", Stopped(15, false, {Code(0, 75)}), none, NextStep::kPreempted, 75, -1, 0},
      {"second signal", SecondSignal(2, {EndedByUs(0, 9)}), three, NextStep::kGiveUp, 130, -1, 0},
  };
  for (const Case& c : cases) {
    const Verdict verdict = DecideNextStep(c.result, c.budget);
    EXPECT_EQ(verdict.next, c.next) << c.name << ": " << verdict.reason;
    EXPECT_EQ(verdict.exit_code, c.exit_code) << c.name;
    EXPECT_EQ(verdict.first_cause, c.first_cause) << c.name;
    EXPECT_EQ(verdict.tally.spent, c.spent) << c.name;
    EXPECT_FALSE(verdict.reason.empty()) << c.name;
  }
}

TEST(RestartPolicyTest, ThreeRestartsWithoutProgressThenGiveUp) {
  RestartBudget budget = {.max_restarts = 3};
  for (int restart = 1; restart <= 3; ++restart) {
    const Verdict verdict = DecideNextStep(Exits({Signal(1, 9)}), budget);
    ASSERT_EQ(verdict.next, NextStep::kRestart);
    ASSERT_EQ(verdict.tally.spent, restart);
    ASSERT_EQ(verdict.tally.restarts, restart);
    budget.tally = verdict.tally;
  }
  const Verdict verdict = DecideNextStep(Exits({Signal(1, 9)}), budget);
  EXPECT_EQ(verdict.next, NextStep::kGiveUp);
  EXPECT_EQ(verdict.exit_code, exit_code::kBudgetSpent);
  EXPECT_EQ(verdict.reason, "rank 1 was killed by SIGKILL (9)");
  EXPECT_EQ(verdict.decision, "3 restarts without progress (--max-restarts): giving up");
}

GenerationResult NeverTrained(std::vector<WorkerExit> exits) {
  GenerationResult result = Exits(std::move(exits));
  result.trained = false;
  return result;
}

TEST(RestartPolicyTest, StartUpHasABudgetOfItsOwn) {
  RestartBudget budget = {.max_restarts = 2, .tally = {.spent = 2}};
  for (int start = 1; start <= 2; ++start) {
    const Verdict verdict = DecideNextStep(NeverTrained({Code(0, 70)}), budget);
    ASSERT_EQ(verdict.next, NextStep::kRestart) << verdict.decision;
    EXPECT_EQ(verdict.decision, absl::StrCat("restart ", start, " of 2 before training began"));
    EXPECT_EQ(verdict.tally.spent, 2) << "the run's budget is not touched";
    budget.tally = verdict.tally;
  }
  const Verdict third = DecideNextStep(NeverTrained({Code(0, 70)}), budget);
  EXPECT_EQ(third.exit_code, exit_code::kBudgetSpent);
  EXPECT_EQ(third.decision, "2 restarts before training began (--max-restarts): giving up");
  // A generation that trains refills this budget, and is charged to the other one.
  GenerationResult trained = Exits({Signal(0, 9)});
  trained.progress = true;
  const Verdict after = DecideNextStep(trained, budget);
  EXPECT_EQ(after.next, NextStep::kRestart);
  EXPECT_EQ(after.tally.start_spent, 0);
  EXPECT_EQ(after.tally.spent, 1);
}

WorkerExit Said(int rank, int code, const std::string& last_line) {
  WorkerExit exit = Code(rank, code);
  exit.last_line = last_line;
  return exit;
}

TEST(RestartPolicyTest, TheSameUserErrorTwiceIsEnough) {
  const std::string error = "ModuleNotFoundError: No module named 'torhc'";
  const RestartBudget fresh = {.max_restarts = 5};
  const Verdict once = DecideNextStep(Exits({Said(0, 1, error)}), fresh);
  ASSERT_EQ(once.next, NextStep::kRestart);
  const RestartBudget seen = {.max_restarts = 5, .tally = once.tally};

  const Verdict twice = DecideNextStep(Exits({Said(1, 1, error)}), seen);
  EXPECT_EQ(twice.next, NextStep::kGiveUp);
  EXPECT_EQ(twice.exit_code, 93);
  EXPECT_NE(twice.decision.find("twice"), std::string::npos);

  GenerationResult further = Exits({Said(1, 1, error)});
  further.progress = true;
  EXPECT_EQ(DecideNextStep(further, seen).next, NextStep::kRestart) << "steps were gained between";
  EXPECT_EQ(DecideNextStep(Exits({Said(0, 1, "NameError: x")}), seen).next, NextStep::kRestart) << "another error";
  const Verdict weather = DecideNextStep(Exits({Said(0, 1, "RuntimeError: connection closed")}), fresh);
  EXPECT_EQ(weather.tally.user_error, "");
  const RestartBudget none = {.max_restarts = 0, .tally = once.tally};
  EXPECT_EQ(DecideNextStep(Exits({Said(0, 1, error)}), none).exit_code, 1) << "without a budget its own code";
}

WorkerExit Reported(int rank, int64_t step, const std::string& message, int code = 70) {
  WorkerExit exit = Said(rank, code, message);
  exit.error = ReportedError(step, message);
  return exit;
}

TEST(RestartPolicyTest, TheSameReportedErrorAtTheSameStepIsNotTriedAgain) {
  const std::string error = "blocks.3.fc: Given groups=1, weight of size [32, 17, 5]\n  in conv1d";
  const RestartBudget fresh = {.max_restarts = 5};
  GenerationResult first = Exits({Reported(0, 17, error), EndedByUs(1, 9)});
  first.progress = true;
  const Verdict once = DecideNextStep(first, fresh);
  ASSERT_EQ(once.next, NextStep::kRestart);
  const RestartBudget seen = {.max_restarts = 5, .tally = once.tally};

  for (const bool progress : {false, true}) {
    GenerationResult again = first;
    again.progress = progress;  // a rank may have been one step behind when it first ended
    const Verdict twice = DecideNextStep(again, seen);
    EXPECT_EQ(twice.next, NextStep::kGiveUp);
    EXPECT_EQ(twice.exit_code, exit_code::kBudgetSpent);
    EXPECT_EQ(twice.decision, "the same error at step 17 twice: it would only come again, giving up");
  }
  EXPECT_EQ(DecideNextStep(Exits({Reported(1, 17, "another"), Reported(0, 17, error)}), seen).next, NextStep::kGiveUp)
      << "all ranks have it, another one was quicker";
  EXPECT_EQ(DecideNextStep(Exits({Reported(0, 18, error)}), seen).next, NextStep::kRestart) << "another step";
  EXPECT_EQ(DecideNextStep(Exits({Reported(0, 17, "something else")}), seen).next, NextStep::kRestart);
  EXPECT_EQ(DecideNextStep(Exits({Reported(0, 17, error, 69)}), seen).next, NextStep::kRestart) << "a peer was away";
  EXPECT_EQ(DecideNextStep(Exits({Signal(0, 11)}), seen).tally.user_error, "");
}

TEST(RestartPolicyTest, WhatAnOperatorCanMendIsTriedAgainForEver) {
  RestartBudget budget = {.max_restarts = 2, .tally = {.spent = 2, .start_spent = 2}};
  const std::string full = "saving a checkpoint: cannot write /runs/a/x: No space left on device";
  for (int attempt = 1; attempt <= 20; ++attempt) {
    RestartTally next;
    for (const int code : {70, 64, 1}) {
      const Verdict verdict = DecideNextStep(Exits({Reported(0, 5, full, code), Code(1, 69)}), budget);
      ASSERT_EQ(verdict.next, NextStep::kRestart) << attempt << " " << code << verdict.decision;
      EXPECT_EQ(verdict.tally.spent, 2) << "at no cost";
      EXPECT_EQ(verdict.tally.start_spent, 2);
      EXPECT_EQ(verdict.tally.stalls, attempt);
      EXPECT_EQ(verdict.room, "/runs/a/x");
      next = verdict.tally;
    }
    budget.tally = next;
  }
  GenerationResult further = Exits({Reported(0, 9, full)});
  further.progress = true;
  EXPECT_EQ(DecideNextStep(further, budget).tally.stalls, 1);
  const Verdict other = DecideNextStep(Exits({Signal(0, 9)}), {.max_restarts = 9, .tally = budget.tally});
  EXPECT_EQ(other.tally.stalls, 0);
  EXPECT_EQ(other.tally.spent, 3);
  const RestartBudget none = {.max_restarts = 0};
  EXPECT_EQ(DecideNextStep(Exits({Reported(0, 5, full, 64)}), none).exit_code, 70) << "nobody's mistake";
  EXPECT_EQ(DecideNextStep(Exits({Reported(0, 5, full, 70)}), none).next, NextStep::kGiveUp);
}

TEST(RestartPolicyTest, AUserErrorInAWorldOfAnotherSizeWaitsForItsNodes) {
  const auto in_world = [](int ranks, bool trained, std::vector<WorkerExit> exits) {
    GenerationResult result = Exits(std::move(exits));
    result.world_size = ranks;
    result.trained = trained;
    return result;
  };
  const std::string words = "virtual_shards: 12 runs on 1, 3, 6, 12 ranks, not on 2";
  RestartBudget budget = {.max_restarts = 3};
  EXPECT_EQ(DecideNextStep(in_world(2, false, {Said(0, 64, words)}), budget).exit_code, 64) << "refused at the start";

  const Verdict lost = DecideNextStep(in_world(3, true, {Signal(0, 9)}), budget);
  EXPECT_EQ(lost.tally.trained_world, 3);
  budget.tally = lost.tally;
  for (int attempt = 1; attempt <= 9; ++attempt) {
    const Verdict verdict = DecideNextStep(in_world(2, false, {Said(0, 64, words), Said(1, 64, words)}), budget);
    ASSERT_EQ(verdict.next, NextStep::kRestart);
    EXPECT_EQ(verdict.tally.stalls, attempt);
    EXPECT_EQ(verdict.tally.spent, lost.tally.spent);
    EXPECT_EQ(verdict.decision, "the run has trained on 3 ranks and cannot on 2: waiting for more nodes");
    budget.tally = verdict.tally;
  }
  EXPECT_EQ(DecideNextStep(in_world(3, false, {Said(0, 64, words)}), budget).exit_code, 64) << "it is not the size";
}

TEST(RestartPolicyTest, RestartsWaitLongerEachTimeTheFirstOneNotAtAll) {
  EXPECT_EQ(RestartDelay({}), absl::ZeroDuration());
  const std::vector<int> seconds = {0, 1, 2, 4, 8, 16, 32, 60, 60, 60};
  for (size_t i = 0; i < seconds.size(); ++i) {
    const int failures = static_cast<int>(i) + 1;
    EXPECT_EQ(RestartDelay({.spent = failures}), absl::Seconds(seconds[i])) << failures;
    EXPECT_EQ(RestartDelay({.start_spent = failures}), absl::Seconds(seconds[i])) << failures;
    EXPECT_EQ(RestartDelay({.stalls = failures}), absl::Seconds(seconds[i])) << failures;
  }
  EXPECT_EQ(RestartDelay({.stalls = 1'000'000'000}), absl::Seconds(60));
}

TEST(RestartPolicyTest, WorkersThatEndedWithTheirSpawner) {
  WorkerExit lost = Signal(0, 9);
  lost.lost = "composer-spawn was killed by SIGKILL (9)";
  const std::vector<WorkerExit> exits = {lost, EndedByUs(1, 9)};
  const Verdict verdict = DecideNextStep(Exits(exits), {.max_restarts = 3});
  EXPECT_EQ(verdict.next, NextStep::kRestart);
  EXPECT_EQ(verdict.tally.spent, 1);
  EXPECT_EQ(verdict.reason, "rank 0 was lost: composer-spawn was killed by SIGKILL (9)");
  EXPECT_EQ(DecideNextStep(Exits(exits), {.max_restarts = 0}).exit_code, 70) << "not the program's signal";
  EXPECT_EQ(RoleOf(exits, 1, verdict.first_cause), "collateral: ended by the launcher");
}

RemoteEnd Remote(bool collateral, std::optional<Verdict> verdict = std::nullopt) {
  return {.cause = "rank 5 failed (node b)", .collateral = collateral, .verdict = std::move(verdict)};
}

TEST(RestartPolicyTest, FirstCauseAcrossNodes) {
  const RestartBudget budget = {.max_restarts = 3, .tally = {.spent = 1}};
  const Verdict theirs = {
      .next = NextStep::kGiveUp, .exit_code = 64, .first_cause = 0, .tally = {.spent = 1}, .reason = "r"};
  struct Case {
    const char* name;
    std::vector<WorkerExit> exits;
    RemoteEnd remote;
    int first_cause;  // -1 means the other node's
    NextStep next;
  };
  const std::vector<Case> cases = {
      {"told, ours left with 69", {Code(0, 69)}, Remote(false), -1, NextStep::kRestart},
      {"told, ours were killed by us", {EndedByUs(0, 9)}, Remote(false), -1, NextStep::kRestart},
      {"their verdict holds for us", {Code(0, 69)}, Remote(false, theirs), -1, NextStep::kGiveUp},
      {"both certain: who was told second yields", {Signal(0, 11)}, Remote(false, theirs), -1, NextStep::kGiveUp},
      {"our crash explains their 69", {Signal(0, 11), Code(1, 69)}, Remote(true), 0, NextStep::kRestart},
      {"69 on both sides", {Code(0, 69)}, Remote(true), -1, NextStep::kRestart},
      {"their 69, ours had no failure", {EndedByUs(0, 9)}, Remote(true), -1, NextStep::kRestart},
  };
  for (const Case& c : cases) {
    GenerationResult result = Exits(c.exits);
    result.remote = c.remote;
    const Verdict verdict = DecideNextStep(result, budget);
    EXPECT_EQ(verdict.first_cause, c.first_cause) << c.name;
    EXPECT_EQ(verdict.next, c.next) << c.name;
    if (verdict.next == NextStep::kRestart) EXPECT_EQ(verdict.tally.spent, 2) << c.name;
    EXPECT_EQ(verdict.reason, c.first_cause < 0 && !c.remote.verdict.has_value() ? "rank 5 failed (node b)"
                              : c.remote.verdict.has_value()                     ? "r"
                                                                                 : "rank 0 was killed by SIGSEGV (11)")
        << c.name;
  }
}

TEST(RestartPolicyTest, RolesMarkTheCollateral) {
  WorkerExit late = Signal(4, 6);
  late.after_news = true;
  const std::vector<WorkerExit> exits = {Code(3, 69), Signal(1, 11), EndedByUs(0, 9), Code(2, 0),
                                         late,        Code(5, 75),   Code(6, 1)};
  const int cause = FirstCause(exits, nullptr);
  EXPECT_EQ(cause, 1);
  const std::vector<std::string> roles = {"collateral: its peers were gone (69)",        "first cause",
                                          "collateral: ended by the launcher",           "done",
                                          "collateral: it failed after the first cause", "preempted",
                                          "collateral: it failed after the first cause"};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(RoleOf(exits, i, cause), roles[i]) << i;
  EXPECT_EQ(FirstCause({late}, nullptr), -1) << "a crash on the way out is not a cause";
}

TEST(RestartPolicyTest, A69IsNotCertainToBeTheCause) {
  bool certain = true;
  EXPECT_EQ(FirstCause({Code(0, 0), Code(1, 69)}, &certain), 1);
  EXPECT_FALSE(certain);
  EXPECT_EQ(FirstCause({Code(1, 69), Signal(0, 9)}, &certain), 1);
  EXPECT_TRUE(certain);
  EXPECT_EQ(FirstCause({Code(0, 0), Code(1, 75)}, &certain), -1);
}

TEST(RestartPolicyTest, ReasonNamesRankAndExit) {
  EXPECT_EQ(DescribeExit(Signal(1, 9)), "rank 1 was killed by SIGKILL (9)");
  EXPECT_EQ(DescribeExit(Code(2, 3)), "rank 2 exited with 3");
  EXPECT_EQ(DescribeExit(Said(2, 1, "KeyError: 'lr'")), "rank 2 exited with 1: KeyError: 'lr'");
  EXPECT_EQ(DescribeExit(Hung(0)), "rank 0 hung: no step for 21s");
}

TEST(DecideNextStepTest, AWorldThatGrowsCostsNothing) {
  const RestartBudget spent = {.max_restarts = 0, .tally = {.spent = 2, .restarts = 7}};
  const auto decide = [&](std::vector<WorkerExit> exits, auto change) {
    GenerationResult result = Exits(std::move(exits));
    result.resizing = "the world grows from 1 to 2";
    result.checkpoints_on_stop = true;
    change(result);
    return DecideNextStep(result, spent);
  };
  const auto as_is = [](GenerationResult&) {};
  WorkerExit told = Signal(0, 15);
  told.after_news = true;
  for (const auto& exits :
       {std::vector{Code(0, 75), Code(1, 75)}, {Code(0, 69), Code(1, 69)}, {EndedByUs(0, 15)}, {told}}) {
    const Verdict verdict = decide(exits, as_is);
    EXPECT_EQ(verdict.next, NextStep::kRestart);
    EXPECT_EQ(verdict.tally.restarts, 7);
    EXPECT_EQ(verdict.tally.spent, 2);
    EXPECT_EQ(verdict.reason, "the world grows from 1 to 2");
  }
  EXPECT_EQ(decide({Code(0, 0), Code(1, 0)}, as_is).next, NextStep::kDone) << "it was over before";
  EXPECT_EQ(decide({Signal(0, 11), Code(1, 69)}, as_is).next, NextStep::kGiveUp) << "a failure stays one";
  EXPECT_EQ(decide({Code(0, 69)}, [](auto& r) { r.remote = RemoteEnd{.cause = "node b was lost"}; }).next,
            NextStep::kGiveUp);
  EXPECT_EQ(decide({Code(0, 69)}, [](auto& r) { r.remote = RemoteEnd{.cause = "a 69", .collateral = true}; }).next,
            NextStep::kRestart);
  EXPECT_EQ(decide({Code(0, 75)}, [](auto& r) { r.stop_signal = 15; }).next, NextStep::kPreempted) << "asked to stop";
}

TEST(DecideNextStepTest, AnotherNodeHadToStopAndTheWorldMayShrink) {
  GenerationResult result;
  result.exits = {{.rank = 0, .status = {.code = exit_code::kPreempted}}, {.rank = 1, .status = {.code = 75}}};
  result.checkpoints_on_stop = true;
  const RestartBudget budget{.max_restarts = 3, .tally = {.spent = 2, .restarts = 2}};
  EXPECT_EQ(DecideNextStep(result, budget).next, NextStep::kPreempted) << "all nodes are needed";
  result.may_shrink = true;
  const Verdict verdict = DecideNextStep(result, budget);
  EXPECT_EQ(verdict.next, NextStep::kRestart);
  EXPECT_EQ(verdict.tally.spent, 2) << "at no cost";
  EXPECT_EQ(verdict.decision, "going on with the nodes that are left");
  result.stop_signal = SIGTERM;
  EXPECT_EQ(DecideNextStep(result, budget).next, NextStep::kPreempted) << "this is the node that has to stop";
  result.stop_signal = 0;
  result.exits[1].status = {.code = 0, .signal = SIGKILL};
  EXPECT_EQ(DecideNextStep(result, budget).tally.spent, 3) << "a failure is one";
}

}  // namespace
}  // namespace composer
