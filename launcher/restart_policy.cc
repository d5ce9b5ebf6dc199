// SPDX-License-Identifier: Apache-2.0
#include "launcher/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

bool IsFailure(const WorkerExit& exit) {
  if (!exit.hang.empty()) return true;
  return !exit.ended_by_us && !exit.status.ok() && exit.status.code != exit_code::kPreempted;
}

bool IsCollateralLooking(const WorkerExit& exit) { return exit.status.code == exit_code::kUnavailable; }

// What the launcher returns when this exit alone decides.
int OwnCode(const WorkerExit& exit) { return exit.hang.empty() ? exit.status.ShellCode() : exit_code::kFailure; }

bool AllEndedWith(const GenerationResult& result, std::initializer_list<int> codes) {
  return std::all_of(result.exits.begin(), result.exits.end(), [&](const WorkerExit& exit) {
    return exit.status.signal == 0 && std::find(codes.begin(), codes.end(), exit.status.code) != codes.end();
  });
}

Verdict GiveUp(int code, int first_cause, const RestartBudget& budget, std::string reason, std::string decision = "") {
  return {NextStep::kGiveUp, code, first_cause, budget.spent, std::move(reason), std::move(decision)};
}

// The generation failed and nobody asked us to stop.
Verdict AfterFailure(const GenerationResult& result, int cause, const RestartBudget& budget) {
  const std::string what = cause >= 0                    ? DescribeExit(result.exits[cause])
                           : result.remote_cause.empty() ? "the workers were ended"
                                                         : result.remote_cause;
  const int own_code = cause >= 0 ? OwnCode(result.exits[cause]) : exit_code::kUnavailable;
  if (own_code == exit_code::kUserError || own_code == exit_code::kBudgetSpent) {
    return GiveUp(own_code, cause, budget, what, "not retried");
  }
  const int spent = result.progress ? 1 : budget.spent + 1;
  if (budget.max_restarts == 0) return GiveUp(own_code, cause, budget, what);
  if (spent > budget.max_restarts) {
    return GiveUp(exit_code::kBudgetSpent, cause, budget, what,
                  absl::StrCat(budget.max_restarts, " restarts without progress (--max-restarts): giving up"));
  }
  return {NextStep::kRestart, 0, cause, spent, what, absl::StrCat("restart ", spent, " of ", budget.max_restarts)};
}

Verdict AfterStopRequest(const GenerationResult& result, int cause, const RestartBudget& budget) {
  const int signal_code = 128 + result.stop_signal;
  const std::string signal = SignalName(result.stop_signal);
  if (result.killed)
    return GiveUp(signal_code, cause, budget, absl::StrCat("killed at the second ", signal), "all workers were killed");
  if (!result.checkpoints_on_stop) return GiveUp(signal_code, cause, budget, absl::StrCat("stopped by ", signal));
  if (cause < 0)
    return {NextStep::kPreempted, exit_code::kPreempted, -1, budget.spent, absl::StrCat("stopped by ", signal)};
  Verdict verdict = AfterFailure(result, cause, budget);
  if (verdict.next != NextStep::kRestart) return verdict;
  return {NextStep::kPreempted, exit_code::kPreempted, cause, verdict.spent,
          absl::StrCat("stopped by ", signal, " while recovering: ", DescribeExit(result.exits[cause]))};
}

}  // namespace

int FirstCause(const std::vector<WorkerExit>& exits, bool* certain) {
  int collateral = -1;
  for (size_t i = 0; i < exits.size(); ++i) {
    if (!IsFailure(exits[i])) continue;
    if (!IsCollateralLooking(exits[i])) {
      if (certain != nullptr) *certain = true;
      return static_cast<int>(i);
    }
    if (collateral < 0) collateral = static_cast<int>(i);
  }
  if (certain != nullptr) *certain = false;
  return collateral;
}

std::string DescribeExit(const WorkerExit& exit) {
  if (!exit.hang.empty()) return absl::StrCat("rank ", exit.rank, " hung: ", exit.hang);
  return absl::StrCat("rank ", exit.rank, " ", exit.status.ToString());
}

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget) {
  const int cause = FirstCause(result.exits, nullptr);
  const bool ran = !result.exits.empty();
  if (ran && cause < 0 && result.remote_cause.empty() && AllEndedWith(result, {exit_code::kDone})) {
    if (result.stop_signal == 0 || result.checkpoints_on_stop) {
      return {NextStep::kDone, exit_code::kDone, -1, budget.spent, "done"};
    }
  }
  if (ran && !result.killed && AllEndedWith(result, {exit_code::kDone, exit_code::kPreempted}) &&
      !AllEndedWith(result, {exit_code::kDone})) {
    return {NextStep::kPreempted, exit_code::kPreempted, -1, budget.spent, "preempted after a checkpoint"};
  }
  if (result.stop_signal != 0) return AfterStopRequest(result, cause, budget);
  return AfterFailure(result, cause, budget);
}

}  // namespace composer
