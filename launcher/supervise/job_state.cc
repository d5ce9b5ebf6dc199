// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/supervise/job_state_step.h"

namespace composer {

using To = action::Print::To;

JobState::JobState(Options options)
    : options_(std::move(options)), budget_{.max_restarts = options_.max_restarts, .tally = {}} {}

std::vector<JobAction> JobState::On(const JobEvent& event, const WorkerFacts& facts, absl::Time now) {
  if (phase_ == Phase::kFinished) return {};
  Step step{*this, facts, now, {}};
  std::visit([&step](const auto& e) { step.On(e); }, event);
  return std::move(step.actions);
}

absl::Time JobState::NextWake() const { return std::min({kill_at_, start_kill_at_, join_at_, explain_until_}); }

// Nothing here says why, and another node may.
bool JobState::MayBeExplained(const WorkerFacts& facts) const {
  bool certain = false;
  return FirstCause(facts.exits, &certain) >= 0 && !certain && nodes_ > 1 && resize_reason_.empty() &&
         (!remote_.has_value() || remote_->collateral);
}

GenerationResult JobState::Result(const WorkerFacts& facts) const {
  const bool ran = phase_ != Phase::kJoining;
  return {.exits = ran ? std::vector<WorkerExit>(facts.exits.begin(), facts.exits.end()) : std::vector<WorkerExit>(),
          .remote = remote_,
          .resizing = resize_reason_,
          .resizes_at_once = resizes_at_once_,
          .stop_signal = stop_signal_,
          .checkpoints_on_stop = options_.job,
          .may_shrink = nodes_ > options_.min_nodes,
          .killed = killed_,
          .world_size = ran ? world_size_ : 0,
          .trained = !ran || facts.trained,
          .progress = ran && facts.progress};
}

void JobState::Step::On(const event::WorldJoined& world) {
  if (world.tally.restarts > state.budget_.tally.restarts) state.budget_.tally = world.tally;
  state.generation_ = world.generation;
  state.nodes_ = world.nodes;
  state.world_size_ = world.world_size;
  state.announced_ = state.all_done_ = false;
  state.reported_ = -1;
  state.remote_.reset();
  state.resize_reason_.clear();
  state.resizes_at_once_ = false;
  state.kill_at_ = state.start_kill_at_ = state.explain_until_ = absl::InfiniteFuture();
  state.phase_ = Phase::kRunning;
  Add(action::StartWorkers{});
  const auto early = std::exchange(state.early_over_, std::nullopt);
  if (early.has_value() && early->generation == world.generation) Add(action::Repeat{*early});
}

void JobState::Step::On(const event::JoinFailed& failure) {
  const absl::Status& status = failure.status;
  if (state.phase_ == Phase::kDone) return On(event::BarrierPassed{state.generation_, status});
  if (absl::IsAlreadyExists(status)) {
    Print("the job is done; this node waited as a spare and was not needed");
    return Finish({.next = NextStep::kDone});
  }
  const bool refused = absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status);
  Fail(refused ? exit_code::kUserError : exit_code::kUnavailable,
       absl::StrCat(state.phase_ == Phase::kJoining ? "cannot join: " : "", status.message()));
}

void JobState::Step::On(const event::StartFailed& failure) {
  Fail(absl::IsUnavailable(failure.status) ? exit_code::kFailure : exit_code::kUserError,
       std::string(failure.status.message()));
}

void JobState::Step::On(const event::WorkersChanged&) {
  if (state.phase_ == Phase::kJoining || state.phase_ == Phase::kDone) return;
  bool certain = false;
  const int cause = FirstCause(facts.exits, &certain);
  if (facts.all_gone) return EndGeneration();
  if (state.phase_ == Phase::kRunning && cause >= 0) {
    BeginEnding(DescribeExit(facts.exits[cause]));
  } else if (state.phase_ == Phase::kRunning && state.stop_signal_ == 0 && !facts.exits.empty() &&
             facts.exits.back().status.code == exit_code::kPreempted) {
    Add(action::Drain{absl::StrCat("rank ", facts.exits.back().rank, " was asked to stop")});
  }
  if (state.phase_ == Phase::kEnding && certain) ReportCause();
  const bool ours = !state.remote_.has_value() || state.remote_->collateral;
  if (certain && ours && !state.announced_ && state.stop_signal_ == 0) Announce(cause);
}

void JobState::Step::On(const event::GenerationOver& over) {
  const bool gives_up = over.remote.verdict.has_value() && over.remote.verdict->next == NextStep::kGiveUp;
  if (over.generation > state.generation_ && state.phase_ == Phase::kJoining && gives_up) {
    Print(over.remote.cause);  // This node never began that world, and there will be no other.
    state.announced_ = true;
    return Finish(*over.remote.verdict);
  }
  if (over.generation > state.generation_) state.early_over_ = over;
  if (over.generation != state.generation_) return;
  const bool ours_counts = state.reported_ >= 0 && !state.MayBeExplained(facts);
  if (ours_counts && !over.remote.collateral && !over.remote.verdict.has_value()) return;
  const bool news = !state.remote_.has_value() || state.remote_->cause != over.remote.cause;
  state.remote_ = over.remote;
  const RemoteEnd& remote = *state.remote_;
  Print(absl::StrCat("generation ", state.generation_, " is over: ", remote.cause,
                     remote.collateral ? " (perhaps collateral)" : ""),
        To::kLog);
  if (news && !remote.collateral) {
    Print(remote.cause);
    state.announced_ = true;
  }
  if (state.phase_ == Phase::kRunning) return BeginEnding(remote.cause);
  if (state.phase_ == Phase::kDone || (state.phase_ == Phase::kEnding && facts.all_gone)) return EndGeneration();
  if (state.phase_ != Phase::kJoining || remote.collateral) return;
  Add(action::AmendCause{remote.cause});
  if (remote.verdict.has_value() && remote.verdict->next == NextStep::kGiveUp) Finish(*remote.verdict);
}

// The workers stop as on a stop signal, or at once, and the next generation follows. Where the request comes later than
// the end of a peer that has heard it, the workers are gone or going already. A node that is done joins the next world
// too when the workers of others, which it waits for, are ended before they are done.
void JobState::Step::On(const event::ResizeAsked& resize) {
  const bool ending = state.phase_ == Phase::kEnding && state.MayBeExplained(facts);
  const bool done = state.phase_ == Phase::kDone && !resize.checkpoint;
  const bool fits = (state.phase_ == Phase::kRunning || ending || done) && resize.generation == state.generation_;
  if (!fits || state.stop_signal_ != 0) return;
  state.resize_reason_ = resize.reason;
  state.resizes_at_once_ = !resize.checkpoint;
  Print(absl::StrCat(resize.reason,
                     resize.checkpoint ? ": the workers checkpoint and start again" : ": the workers start again"));
  if (ending || done) return facts.all_gone ? EndGeneration() : void();
  resize.checkpoint ? Add(action::Drain{resize.reason}) : BeginEnding(resize.reason);
}

void JobState::Step::On(const event::BarrierPassed& answer) {
  if (state.phase_ != Phase::kDone || answer.generation != state.generation_) return;
  state.all_done_ = true;
  if (absl::IsAborted(answer.status)) {  // Another node failed: its cause is on the way.
    state.explain_until_ = now + kExplainWait;
    return;
  }
  if (!answer.status.ok()) {
    Print(absl::StrCat("leaving without an answer from the other nodes: ", answer.status.message()), To::kLog);
  }
  EndGeneration();
}

void JobState::Step::On(const event::StopAsked& request) {
  const bool is_notice = request.signal == kNoticeSignal;
  const auto [what, history] = DecideStop(state.stop_, request.signal, state.options_.job || facts.all_attached, now);
  state.stop_ = history;
  if (what == StopAction::kIgnore) return is_notice ? Print(request.reason) : void();
  const bool only_passed = request.signal == SIGUSR1 || request.signal == SIGUSR2;
  if (what == StopAction::kPassOn && only_passed) return Add(action::SendSignal{request.signal});
  state.stop_signal_ = is_notice ? SIGTERM : request.signal;
  if (state.phase_ == Phase::kJoining) return Finish(Decide());
  if (what == StopAction::kKill) {
    state.killed_ = true;
    state.kill_at_ = absl::InfinitePast();
    return Print(absl::StrCat(request.reason, " again: killing all workers"));
  }
  if (state.phase_ == Phase::kEnding) return;
  if (state.phase_ == Phase::kDone) return EndGeneration();
  if (what == StopAction::kDrain) {
    const bool again = request.signal == SIGTERM || request.signal == SIGINT;
    Print(absl::StrCat(request.reason, ": the workers checkpoint and stop", again ? "; again to kill them now" : ""));
    Add(action::Drain{request.reason});
    state.start_kill_at_ = now + kStartLimit;
  } else {
    if (is_notice) Print(absl::StrCat(request.reason, ": the workers get SIGTERM"));
    Add(action::SendSignal{state.stop_signal_});
    state.kill_at_ = now + kSignalLimit;
  }
}

void JobState::Step::On(const event::KillAsked& request) {
  Print(absl::StrCat(request.reason, ": killing all workers"));
  state.stop_signal_ = SIGTERM;
  if (state.phase_ == Phase::kJoining) return Finish(Decide());
  if (state.phase_ == Phase::kDone) return EndGeneration();
  state.killed_ = true;
  state.kill_at_ = absl::InfinitePast();
}

void JobState::Step::On(const event::SpawnerLost& loss) {
  state.quick_deaths_ = now - state.spawner_since_ < kQuickDeath ? state.quick_deaths_ + 1 : 0;
  state.spawner_since_ = now;
  state.spawner_loss_ = loss.how;
  if (!loss.leftovers_gone) return Fail(exit_code::kFailure, loss.how + "; a process of the job cannot be killed");
  if (state.quick_deaths_ > kMaxQuickDeaths) return Fail(exit_code::kFailure, loss.how + " again and again; giving up");
  Add(action::RestartSpawner{});
}

void JobState::Step::On(const event::SpawnerRestarted& restart) {
  if (!restart.status.ok()) {
    return Fail(exit_code::kFailure,
                absl::StrCat(state.spawner_loss_, " and cannot be started again: ", restart.status.message()));
  }
  if (state.phase_ != Phase::kRunning && state.phase_ != Phase::kEnding) {
    return Print(state.spawner_loss_ + "; it was started again");
  }
  Add(action::LoseWorkers{state.spawner_loss_});
}

void JobState::Step::On(const event::RoomLooked& look) {
  if (state.phase_ != Phase::kJoining) return;
  if (look.has_room) return Add(action::Join{state.checkpointed_});
  state.join_at_ = now + kRoomLook;
}

void JobState::Step::On(const event::TimePassed&) {
  if (now >= state.explain_until_) return EndGeneration();
  if (now >= state.start_kill_at_) {
    state.start_kill_at_ = absl::InfiniteFuture();
    if (state.phase_ == Phase::kRunning && !facts.all_started) {
      Print("the workers have not begun to train: they are killed, there is nothing to save");
      state.kill_at_ = now;
    }
  }
  if (now >= state.kill_at_) {
    state.kill_at_ = absl::InfiniteFuture();
    Add(action::SendSignal{SIGKILL});
  }
  if (now >= state.join_at_) JoinWhenReady();
}

}  // namespace composer
