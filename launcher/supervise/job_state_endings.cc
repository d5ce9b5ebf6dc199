// How a generation ends on this node, and the job.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/supervise/job_state_step.h"

namespace composer {

// Every rank is to leave: those that listen when they are told, others by SIGTERM, all by SIGKILL in the end.
void JobState::Step::BeginEnding(const std::string& cause) {
  state.phase_ = Phase::kEnding;
  Add(action::MarkFailure{});
  ReportCause();
  Add(action::EndWorkers{cause});
  const bool only_signals = !state.options_.job && !facts.all_attached;
  state.kill_at_ = std::min(state.kill_at_, now + (only_signals ? kSignalLimit : kLeaveLimit));
  Add(action::SendSignal{SIGTERM, /*only_unattached=*/true});
}

// Reports our first cause and what follows from it; again when a better one has come up.
void JobState::Step::ReportCause() {
  bool certain = false;
  const int cause = FirstCause(facts.exits, &certain);
  if (!state.resize_reason_.empty() && !certain) return;
  if (cause < 0 || cause == state.reported_) return;
  if (state.remote_.has_value() && !(certain && state.remote_->collateral)) return;
  state.reported_ = cause;
  Verdict verdict = Decide();
  const bool travels = certain && (verdict.next == NextStep::kRestart || verdict.next == NextStep::kGiveUp);
  Add(action::ReportCause{cause, certain, travels ? std::optional(std::move(verdict)) : std::nullopt});
}

void JobState::Step::Announce(int exit) {
  state.announced_ = true;
  if (!state.stalled_by_.empty() && Decide().decision == state.stalled_by_) return;
  Add(action::Announce{exit});
}

void JobState::Step::EndGeneration() {
  if (state.phase_ == Phase::kRunning) Add(action::MarkFailure{});  // The last one to leave was the first to fail.
  ReportCause();
  if (state.stop_signal_ == 0 && state.MayBeExplained(facts) && now < state.explain_until_) {
    state.phase_ = Phase::kEnding;
    if (state.explain_until_ == absl::InfiniteFuture()) state.explain_until_ = now + kExplainWait;
    return;
  }
  state.explain_until_ = absl::InfiniteFuture();
  const Verdict verdict = Decide();
  const bool stopped = state.stop_signal_ != 0;
  const bool leaves = state.all_done_ || (stopped && (state.phase_ == Phase::kDone || state.killed_));
  if (verdict.next == NextStep::kDone && state.nodes_ > 1 && !leaves) {
    state.phase_ = Phase::kDone;
    if (stopped) state.explain_until_ = now + kExplainWait;  // the others must hear of it; no longer than that
    return Add(action::ArriveAtBarrier{});
  }
  Add(action::CloseGeneration{});
  if (verdict.first_cause >= 0 && !state.announced_) Announce(verdict.first_cause);
  if (verdict.next != NextStep::kRestart) return Finish(verdict);
  Conclude(verdict);
  state.budget_.tally = verdict.tally;
  state.checkpointed_ = !facts.exits.empty() && AllEndedWith(facts.exits, {exit_code::kPreempted});
  state.phase_ = Phase::kJoining;
  state.kill_at_ = state.start_kill_at_ = absl::InfiniteFuture();
  Add(action::Sweep{});
  JoinAgain(verdict);
  Add(action::SaveSummary{});
}

// After the pause that the restarts before this one call for, and as long as there is no room where some is needed. Not
// for ever: what is left of the last save may be what fills the disk, and a start clears that away.
void JobState::Step::JoinAgain(const Verdict& verdict) {
  state.stalled_by_ = verdict.tally.stalls > 0 ? verdict.decision : "";
  state.join_at_ = now + RestartDelay(verdict.tally);
  state.room_ = verdict.tally.stalls <= 1 ? "" : verdict.room == "." ? state.options_.run_folder : verdict.room;
  state.room_until_ = now + kRoomPatience;
  if (state.join_at_ <= now) JoinWhenReady();
}

void JobState::Step::JoinWhenReady() {
  state.join_at_ = absl::InfiniteFuture();
  if (state.phase_ != Phase::kJoining) return;
  if (state.room_.empty() || now >= state.room_until_) return Add(action::Join{state.checkpointed_});
  Add(action::LookForRoom{state.room_});
}

void JobState::Step::Conclude(const Verdict& verdict) {
  const bool same_stall = !state.stalled_by_.empty() && verdict.decision == state.stalled_by_;
  Add(action::Conclude{.verdict = verdict,
                       .ran = state.phase_ != Phase::kJoining,
                       .announced = state.announced_,
                       .repeated = same_stall && verdict.next == NextStep::kRestart});
}

void JobState::Step::Finish(const Verdict& verdict) {
  Conclude(verdict);
  state.phase_ = Phase::kFinished;
  state.exit_code_ = verdict.exit_code;
  Add(action::Finish{});
}

void JobState::Step::Fail(int code, const std::string& reason) {
  Print(reason, action::Print::To::kError);
  state.announced_ = true;
  Finish({.next = NextStep::kGiveUp, .exit_code = code, .first_cause = -1, .reason = reason});
}

}  // namespace composer
