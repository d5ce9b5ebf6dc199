// SPDX-License-Identifier: Apache-2.0
#include "launcher/restart_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "launcher/user_error.h"

namespace composer {
namespace {

constexpr size_t kMaxSaid = 200;  // bytes of a worker's last line that a reason repeats

bool IsFailure(const WorkerExit& exit) {
  if (!exit.hang.empty()) return true;
  return !exit.ended_by_us && !exit.after_news && !exit.status.ok() && exit.status.code != exit_code::kPreempted;
}

bool IsCollateralLooking(const WorkerExit& exit) { return exit.status.code == exit_code::kUnavailable; }

// What the launcher returns when this exit alone decides.
int OwnCode(const WorkerExit& exit) { return exit.hang.empty() ? exit.status.ShellCode() : exit_code::kFailure; }

bool AllEndedWith(const GenerationResult& result, std::initializer_list<int> codes) {
  return std::all_of(result.exits.begin(), result.exits.end(), [&](const WorkerExit& exit) {
    return exit.status.signal == 0 && std::find(codes.begin(), codes.end(), exit.status.code) != codes.end();
  });
}

Verdict GiveUp(int code, int first_cause, const RestartTally& tally, std::string reason, std::string decision = "") {
  return {NextStep::kGiveUp, code, first_cause, tally, std::move(reason), std::move(decision)};
}

// What the failed generation costs.
RestartTally Charge(const GenerationResult& result, const RestartTally& before, std::string user_error) {
  RestartTally tally = before;
  if (!result.trained) {
    ++tally.start_spent;
  } else {
    tally.start_spent = 0;
    tally.spent = result.progress ? 1 : before.spent + 1;
  }
  tally.user_error = std::move(user_error);
  return tally;
}

// Restart or 93, by the budget that the failure is charged to.
Verdict Spend(const GenerationResult& result, int cause, const RestartBudget& budget, const std::string& what,
              std::string user_error) {
  RestartTally tally = Charge(result, budget.tally, std::move(user_error));
  const int spent = result.trained ? tally.spent : tally.start_spent;
  const char* kind = result.trained ? " without progress" : " before training began";
  if (!tally.user_error.empty() && !result.progress && tally.user_error == budget.tally.user_error) {
    return GiveUp(exit_code::kBudgetSpent, cause, budget.tally, what,
                  "the same error in the program twice: it would only come again, giving up");
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

// The generation failed and nobody asked us to stop.
Verdict AfterFailure(const GenerationResult& result, int cause, const RestartBudget& budget) {
  const std::string what = cause >= 0                   ? DescribeExit(result.exits[cause])
                           : !result.remote.has_value() ? "the workers were ended"
                                                        : result.remote->cause;
  const int own_code = cause >= 0 ? OwnCode(result.exits[cause]) : exit_code::kUnavailable;
  if (own_code == exit_code::kUserError || own_code == exit_code::kBudgetSpent) {
    return GiveUp(own_code, cause, budget.tally, what, "not retried");
  }
  if (budget.max_restarts == 0) return GiveUp(own_code, cause, budget.tally, what);
  return Spend(result, cause, budget, what,
               cause >= 0 ? UserError(result.exits[cause].status, result.exits[cause].last_line) : "");
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

// A failure of this node counts only when the other node's can be explained by it.
bool RemoteComesFirst(const GenerationResult& result, int cause, bool certain) {
  return result.remote.has_value() && (cause < 0 || !certain || !result.remote->collateral);
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

std::string RoleOf(const std::vector<WorkerExit>& exits, int index, int first_cause) {
  const WorkerExit& exit = exits[index];
  if (index == first_cause) return "first cause";
  if (!exit.hang.empty()) return "collateral: it waited for others and was ended";
  if (exit.ended_by_us) return "collateral: ended by the launcher";
  if (exit.status.ok()) return "done";
  if (exit.status.signal == 0 && exit.status.code == exit_code::kPreempted) return "preempted";
  if (IsCollateralLooking(exit)) return "collateral: its peers were gone (69)";
  return "collateral: it failed after the first cause";
}

std::string DescribeExit(const WorkerExit& exit) {
  if (!exit.hang.empty()) return absl::StrCat("rank ", exit.rank, " hung: ", exit.hang);
  std::string text = absl::StrCat("rank ", exit.rank, " ", exit.status.ToString());
  if (!exit.kill.empty()) absl::StrAppend(&text, ": ", exit.kill);
  if (exit.status.signal == 0 && exit.status.code != 0 && !exit.last_line.empty()) {
    absl::StrAppend(&text, ": ", absl::string_view(exit.last_line).substr(0, kMaxSaid));
  }
  return text;
}

Verdict DecideNextStep(const GenerationResult& result, const RestartBudget& budget) {
  bool certain = false;
  int cause = FirstCause(result.exits, &certain);
  const bool ran = !result.exits.empty();
  if (ran && cause < 0 && !result.remote.has_value() && AllEndedWith(result, {exit_code::kDone})) {
    if (result.stop_signal == 0 || result.checkpoints_on_stop) {
      return {NextStep::kDone, exit_code::kDone, -1, budget.tally, "done"};
    }
  }
  const bool failed = certain || (result.remote.has_value() && !result.remote->collateral);
  if (ran && !result.regrouping.empty() && !failed && result.stop_signal == 0) {
    return {NextStep::kRestart, 0, -1, budget.tally, result.regrouping};
  }
  if (ran && !result.killed && AllEndedWith(result, {exit_code::kDone, exit_code::kPreempted}) &&
      !AllEndedWith(result, {exit_code::kDone})) {
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

}  // namespace composer
