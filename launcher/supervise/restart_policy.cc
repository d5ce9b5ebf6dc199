// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "launcher/supervise/user_error.h"
#include "launcher/workers/outside_fault.h"

namespace composer {
namespace {

// Returns the launcher's exit code if this exit alone decides.
int OwnCode(const WorkerExit& exit) {
  return exit.hang.empty() && exit.lost.empty() ? exit.status.ShellCode() : exit_code::kFailure;
}

// Returns an error that recurs whenever the program gets to that point; "" if it may be transient.
std::string Deterministic(const WorkerExit& exit) {
  if (!exit.error.empty() && OwnCode(exit) == exit_code::kFailure) return exit.error;
  return UserError(exit.status, exit.last_line);
}

// Any rank may have met the error, and another rank may have reported it first. A reported error names its step.
bool ComesAgain(const GenerationResult& result, const std::string& before) {
  return !before.empty() && std::any_of(result.exits.begin(), result.exits.end(), [&](const WorkerExit& exit) {
    return Deterministic(exit) == before && (!result.progress || exit.error == before);
  });
}

Verdict GiveUp(int code, int first_cause, const RestartTally& tally, std::string reason, std::string decision = "") {
  return {NextStep::kGiveUp, code, first_cause, tally, std::move(reason), std::move(decision)};
}

// Charges the failed generation to the budgets.
RestartTally Charge(const GenerationResult& result, const RestartTally& before, std::string user_error) {
  RestartTally tally = before;
  if (!result.trained) {
    ++tally.start_spent;
  } else {
    tally.start_spent = 0;
    tally.spent = result.progress ? 1 : before.spent + 1;
  }
  tally.stalls = 0;
  tally.user_error = std::move(user_error);
  return tally;
}

// Retries at no cost until the outside world has recovered.
Verdict Stall(const GenerationResult& result, int cause, const RestartBudget& budget, const std::string& what) {
  Verdict verdict = {NextStep::kRestart, 0, cause, budget.tally, what};
  verdict.tally.stalls = result.progress ? 1 : budget.tally.stalls + 1;
  verdict.tally.user_error.clear();
  ++verdict.tally.restarts;
  return verdict;
}

std::optional<Verdict> FindStall(const GenerationResult& result, int cause, const RestartBudget& budget,
                                 const std::string& what) {
  if (cause < 0 || budget.max_restarts == 0) return std::nullopt;
  const WorkerExit& exit = result.exits[cause];
  if (const auto fault = FindOutsideFault(exit.last_line); fault.has_value() && exit.hang.empty()) {
    Verdict verdict = Stall(result, cause, budget, what);
    verdict.room = fault->path.empty() ? "." : fault->path;
    verdict.decision = absl::StrCat(fault->what, ": trying again, at no cost, until that has changed");
    return verdict;
  }
  const int trained = budget.tally.trained_world;
  const bool other_size = trained != 0 && result.world_size != 0 && result.world_size != trained && !result.trained;
  if (OwnCode(exit) != exit_code::kUserError || !other_size) return std::nullopt;
  Verdict verdict = Stall(result, cause, budget, what);
  verdict.decision = absl::StrCat("the run has trained on ", trained, " ranks and cannot on ", result.world_size,
                                  ": waiting for more nodes");
  return verdict;
}

// Restarts, or gives up with 93, according to the budget that the failure is charged to.
Verdict Spend(const GenerationResult& result, int cause, const RestartBudget& budget, const std::string& what,
              std::string user_error) {
  RestartTally tally = Charge(result, budget.tally, std::move(user_error));
  const int spent = result.trained ? tally.spent : tally.start_spent;
  const char* kind = result.trained ? " without progress" : " before training began";
  if (ComesAgain(result, budget.tally.user_error)) {
    return GiveUp(exit_code::kBudgetSpent, cause, budget.tally, what,
                  absl::StrCat("the same error ", PlaceOfError(budget.tally.user_error),
                               " twice: it would only come again, giving up"));
  }
  if (spent > budget.max_restarts) {
    return GiveUp(exit_code::kBudgetSpent, cause, budget.tally, what,
                  absl::StrCat(budget.max_restarts, " restarts", kind, " (--max-restarts): giving up"));
  }
  ++tally.restarts;
  return {NextStep::kRestart,
          0,
          cause,
          tally,
          what,
          absl::StrCat("restart ", spent, " of ", budget.max_restarts, result.trained ? "" : kind)};
}

// Handles a generation that failed without a request to stop.
Verdict AfterFailure(const GenerationResult& result, int cause, const RestartBudget& budget) {
  const std::string what = cause >= 0                   ? DescribeExit(result.exits[cause])
                           : !result.remote.has_value() ? "the workers were ended"
                                                        : result.remote->cause;
  int own_code = cause >= 0 ? OwnCode(result.exits[cause]) : exit_code::kUnavailable;
  if (auto stall = FindStall(result, cause, budget, what); stall.has_value()) return *std::move(stall);
  // This is not the user's mistake, whatever code a lower layer has made of it.
  if (own_code == exit_code::kUserError && FindOutsideFault(result.exits[cause].last_line).has_value()) {
    own_code = exit_code::kFailure;
  }
  if (own_code == exit_code::kUserError || own_code == exit_code::kBudgetSpent) {
    return GiveUp(own_code, cause, budget.tally, what, "not retried");
  }
  if (budget.max_restarts == 0) return GiveUp(own_code, cause, budget.tally, what);
  return Spend(result, cause, budget, what, cause >= 0 ? Deterministic(result.exits[cause]) : "");
}

Verdict AfterStopRequest(const GenerationResult& result, int cause, const RestartBudget& budget) {
  const int signal_code = 128 + result.stop_signal;
  const std::string signal = SignalName(result.stop_signal);
  if (result.killed)
    return GiveUp(signal_code, cause, budget.tally, absl::StrCat("killed at the second ", signal),
                  "all workers were killed");
  if (!result.checkpoints_on_stop) return GiveUp(signal_code, cause, budget.tally, absl::StrCat("stopped by ", signal));
  if (cause < 0)
    return {NextStep::kPreempted, exit_code::kPreempted, -1, budget.tally, absl::StrCat("stopped by ", signal)};
  Verdict verdict = AfterFailure(result, cause, budget);
  if (verdict.next != NextStep::kRestart) return verdict;
  return {NextStep::kPreempted, exit_code::kPreempted, cause, verdict.tally,
          absl::StrCat("stopped by ", signal, " while recovering: ", DescribeExit(result.exits[cause]))};
}

// A failure of this node is the cause only if it can explain the other node's.
bool RemoteComesFirst(const GenerationResult& result, int cause, bool certain) {
  return result.remote.has_value() && (cause < 0 || !certain || !result.remote->collateral);
}

}  // namespace

absl::Duration RestartDelay(const RestartTally& tally) {
  constexpr int kLongest = 60;  // seconds
  const int failures = std::max({tally.spent, tally.start_spent, tally.stalls});
  if (failures <= 1) return absl::ZeroDuration();
  return absl::Seconds(std::min(kLongest, 1 << std::min(failures - 2, 10)));
}

namespace {

Verdict Decide(const GenerationResult& result, const RestartBudget& budget) {
  bool certain = false;
  int cause = FirstCause(result.exits, &certain);
  const bool ran = !result.exits.empty();
  const bool alone = !result.remote.has_value() && !result.resizes_at_once;
  if (ran && cause < 0 && alone && AllEndedWith(result.exits, {exit_code::kDone})) {
    if (result.stop_signal == 0 || result.checkpoints_on_stop) {
      return {NextStep::kDone, exit_code::kDone, -1, budget.tally, "done"};
    }
  }
  const bool failed = certain || (result.remote.has_value() && !result.remote->collateral);
  if (ran && !result.resizing.empty() && !failed && result.stop_signal == 0) {
    return {NextStep::kRestart, 0, -1, budget.tally, result.resizing};
  }
  if (ran && !result.killed && AllEndedWith(result.exits, {exit_code::kDone, exit_code::kPreempted}) &&
      !AllEndedWith(result.exits, {exit_code::kDone})) {
    if (result.may_shrink && result.stop_signal == 0) {
      return {NextStep::kRestart,
              0,
              -1,
              budget.tally,
              "another node had to stop, a checkpoint is saved",
              "going on with the nodes that are left"};
    }
    return {NextStep::kPreempted, exit_code::kPreempted, -1, budget.tally,
            result.checkpoints_on_stop ? "preempted after a checkpoint" : "the program asks to be run again (75)"};
  }
  const bool remote_first = RemoteComesFirst(result, cause, certain);
  if (remote_first) cause = -1;
  if (result.stop_signal != 0) {
    Verdict verdict = AfterStopRequest(result, cause, budget);
    verdict.stopped = cause < 0 || verdict.next == NextStep::kPreempted;
    return verdict;
  }
  if (remote_first && result.remote->verdict.has_value()) {
    Verdict verdict = *result.remote->verdict;
    verdict.first_cause = -1;
    return verdict;
  }
  return AfterFailure(result, cause, budget);
}

}  // namespace

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget) {
  Verdict verdict = Decide(result, budget);
  if (result.trained && result.world_size != 0) verdict.tally.trained_world = result.world_size;
  return verdict;
}

}  // namespace composer
