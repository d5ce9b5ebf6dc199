// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/supervisor.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/console.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/workers/node_resources.h"
#include "launcher/workers/outside_fault.h"
#include "launcher/workers/placement.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kSpawnerPatience = absl::Seconds(10);  // from a SIGKILL to the worker's end
constexpr absl::Duration kQuickDeath = absl::Seconds(1);        // of a spawner
constexpr int kMaxQuickDeaths = 5;
constexpr absl::Duration kOwnStop = absl::Seconds(5);  // a tick this late: we were stopped ourselves
// A rank that waits for a hung one on another node is never named before it.
constexpr absl::Duration kRemotePatience = absl::Seconds(2);

}  // namespace

absl::Time Supervisor::Now() { return RealClock::Get().Now(); }

Supervisor::Supervisor(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      logs_(parts_.console, options_.plan.colours),
      workers_(options_.plan, parts_.spawner, logs_),
      recorder_(options_.run_name, options_.plan.run_folder, options_.launched, ReadHistory(options_.plan.run_folder)),
      budget_{.max_restarts = options_.max_restarts, .tally = {}},
      barrier_(grpc::CreateCustomChannel(parts_.hub.address(), grpc::InsecureChannelCredentials(),
                                         ChannelSettings(Link::kLocal)),
               options_.job),
      meter_(options_.launched),
      serves_(options_.serves) {
  serve_restarts_.OnStart(Now());
}

int Supervisor::Run() {
  parts_.link.Join(ToProto(budget_.tally));
  while (state_ != State::kFinished) WaitForEvents();
  return exit_code_;
}

void Supervisor::WaitForEvents() {
  pollfd polls[3] = {
      {parts_.spawner.fd(), POLLIN, 0}, {parts_.mailbox.fd(), POLLIN, 0}, {parts_.stop_signals, POLLIN, 0}};
  const absl::Duration wait = std::clamp(NextWake() - Now(), absl::ZeroDuration(), absl::Hours(1));
  poll(polls, 3, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)))));
  if (polls[1].revents != 0) {
    for (SupervisorEvent& event : parts_.mailbox.Take()) {
      if (state_ == State::kFinished) return;
      std::visit([this](auto& e) { Handle(std::move(e)); }, event);
    }
  }
  if (state_ != State::kFinished && polls[2].revents != 0) HandleStopSignal();
  if (state_ != State::kFinished && polls[0].revents != 0) HandleSpawner();
  if (state_ != State::kFinished) HandleTime();
}

absl::Time Supervisor::NextWake() const {
  const absl::Time tick = state_ == State::kRunning ? tick_at_ : absl::InfiniteFuture();
  return std::min({tick, kill_at_, start_kill_at_, spawner_at_, join_at_, serve_at_, explain_until_});
}

void Supervisor::Handle(absl::StatusOr<proto::World> world) {
  if (!world.ok() && state_ == State::kDone) return Handle(BarrierAnswer{generation_, world.status()});
  if (!world.ok()) {
    const bool refused = absl::IsInvalidArgument(world.status()) || absl::IsUnauthenticated(world.status());
    return Fail(refused ? exit_code::kUserError : exit_code::kUnavailable,
                absl::StrCat(state_ == State::kJoining ? "cannot join: " : "", world.status().message()));
  }
  absl::Status status = StartWorkers(*world);
  if (IsOutsideFault(status)) {
    workers_.OnStartFailed(status);
    OnWorkerGone();
  } else if (!status.ok()) {
    Fail(absl::IsUnavailable(status) ? exit_code::kFailure : exit_code::kUserError, std::string(status.message()));
  }
}

absl::Status Supervisor::StartWorkers(const proto::World& world) {
  ASSIGN_OR_RETURN(WorkerPlace place, PlaceOf(world));
  if (world.tally().restarts() > budget_.tally.restarts) budget_.tally = FromProto(world.tally());
  place.master_port = options_.rendezvous_port;
  place.restart_count = budget_.tally.restarts;
  place.max_restarts = options_.max_restarts;
  place.cpus = static_cast<int>(options_.plan.cpus.size());
  place.job = options_.job;
  place.run_name = options_.run_name;
  place.launch = options_.plan.job ? recorder_.summary().launch() : 0;
  place.hub = parts_.hub.address();
  if (!options_.plan.job) place.master_port = world.master_port();  // scripts bind it themselves
  first_node_ = place.node_rank == 0;
  writes_summary_ = options_.plan.job && first_node_;
  generation_ = world.generation();
  nodes_ = place.nodes;
  announced_ = all_done_ = false;
  reported_ = -1;
  remote_.reset();
  resize_reason_.clear();
  kill_at_ = start_kill_at_ = spawner_at_ = explain_until_ = absl::InfiniteFuture();
  world_size_ = place.world_size;
  tick_at_ = Now() + kTick;
  parts_.hub.BeginGeneration(generation_);
  recorder_.BeginGeneration(static_cast<int>(generation_), world.world_size(), budget_.tally.restarts);
  state_ = State::kRunning;
  LOG(INFO) << "generation " << generation_ << ": " << world.world_size() << " ranks, " << world.reason();
  return workers_.Start(place, static_cast<int>(generation_));
}

// Also a better cause than the one told before, when ours or theirs is explained by it.
void Supervisor::Handle(const proto::GenerationOver& over) {
  if (over.generation() != generation_) return;
  RemoteEnd remote = FromProto(over.cause());
  const bool ours_counts = reported_ >= 0 && !MayBeExplained();
  if (ours_counts && !remote.collateral && !remote.verdict.has_value()) return;
  const bool news = !remote_.has_value() || remote_->cause != remote.cause;
  remote_ = std::move(remote);
  LOG(INFO) << "generation " << generation_ << " is over: " << remote_->cause
            << (remote_->collateral ? " (perhaps collateral)" : "");
  if (news && !remote_->collateral) {
    PrintToUser(remote_->cause);
    announced_ = true;
  }
  if (state_ == State::kRunning) return BeginEnding(remote_->cause);
  if (state_ == State::kDone || (state_ == State::kEnding && workers_.AllGone())) return EndGeneration();
  if (state_ != State::kJoining || remote_->collateral) return;
  recorder_.Amend(remote_->cause);
  if (remote_->verdict.has_value() && remote_->verdict->next == NextStep::kGiveUp) Finish(*remote_->verdict);
}

// The world grows: as on a stop signal, or at once, but then the next generation. Where the word comes later than the end
// of a peer that has heard it, the workers are gone or going already.
void Supervisor::Handle(const proto::Resize& resize) {
  const bool ending = state_ == State::kEnding && MayBeExplained();
  if ((state_ != State::kRunning && !ending) || resize.generation() != generation_ || stop_signal_ != 0) return;
  resize_reason_ = resize.reason();
  PrintToUser(absl::StrCat(
      resize_reason_, resize.checkpoint() ? ": the workers checkpoint and start again" : ": the workers start again"));
  if (ending) return workers_.AllGone() ? EndGeneration() : void();
  resize.checkpoint() ? parts_.hub.Drain(resize_reason_) : BeginEnding(resize_reason_);
}

void Supervisor::Handle(const WorkerHub::Report& report) {
  if (report.generation != generation_ || workers_.FindRank(report.rank) == nullptr) return;
  workers_.OnReport(report.rank, report.message);
  if (report.message.has_checkpoint_saved()) stalled_by_.clear();  // it is over: the next one is told again
  if (recorder_.OnReport(report.message)) SaveSummary();           // also of a launch that will be killed as a whole
}

void Supervisor::Handle(const BarrierAnswer& answer) {
  if (state_ != State::kDone || answer.generation != generation_) return;
  all_done_ = true;
  if (absl::IsAborted(answer.status)) {  // another node failed: its cause is on the way
    explain_until_ = Now() + kExplainWait;
    return;
  }
  if (!answer.status.ok()) LOG(WARNING) << "leaving without the other nodes' word: " << answer.status.message();
  EndGeneration();
}

void Supervisor::Handle(const Notice& notice) { Stop(kNoticeSignal, DescribeNotice(notice, absl::Now())); }

void Supervisor::HandleSpawner() {
  const auto events = parts_.spawner.TakeEvents();
  if (!events.ok()) return OnSpawnerGone();
  for (const SpawnerEvent& event : *events) {
    if (event.tag == Spawner::kEarlyChildTag) {
      if (event.kind != SpawnerEvent::Kind::kStarted) OnServerGone(event.exit);
      continue;
    }
    switch (event.kind) {
      case SpawnerEvent::Kind::kStarted:
        workers_.OnStarted(event.tag, event.pid);
        break;
      case SpawnerEvent::Kind::kSpawnFailed:
        workers_.OnSpawnFailed(event.tag, event.failure);
        break;
      case SpawnerEvent::Kind::kExited:
        workers_.OnExited(event.tag, event.exit);
        break;
    }
    if (event.kind != SpawnerEvent::Kind::kStarted) OnWorkerGone();
    if (state_ == State::kFinished) return;
  }
}

// Its workers have ended with it, and the rendezvous if it was served here. They can all be started again.
void Supervisor::OnSpawnerGone() {
  const bool killed = parts_.spawner.KillLeftovers();
  const std::string how = absl::StrCat("composer-spawn, which starts the workers, ", parts_.spawner.exit().ToString());
  quick_deaths_ = Now() - spawner_since_ < kQuickDeath ? quick_deaths_ + 1 : 0;
  spawner_since_ = Now();
  if (!killed) return Fail(exit_code::kFailure, how + "; a process of the job cannot be killed");
  if (quick_deaths_ > kMaxQuickDeaths) return Fail(exit_code::kFailure, how + " again and again; giving up");
  if (absl::Status status = parts_.spawner.Restart(); !status.ok()) {
    return Fail(exit_code::kFailure, absl::StrCat(how, " and cannot be started again: ", status.message()));
  }
  if (serves_) serve_at_ = Now();
  if (state_ != State::kRunning && state_ != State::kEnding) return PrintToUser(how + "; it was started again");
  workers_.OnSpawnerGone(how);
  OnWorkerGone();
}

void Supervisor::Handle(const ServeRequest&) {
  if (options_.serve_argv.empty()) return;
  PrintToUser("the host of the rendezvous is lost; serving it here from now on");
  serves_ = true;
  serve_at_ = Now();
}

void Supervisor::OnServerGone(ExitStatus status) {
  if (!serves_) return;  // another launcher serves it
  const ServeRestarts::Decision decision = serve_restarts_.OnExit(status, Now());
  serve_at_ = decision.at;
  if (!decision.message.empty()) PrintToUser(decision.message);
}

void Supervisor::OnWorkerGone() {
  bool certain = false;
  const int cause = FirstCause(workers_.exits(), &certain);
  if (workers_.AllGone()) return EndGeneration();
  if (state_ == State::kRunning && cause >= 0) {
    BeginEnding(DescribeExit(workers_.exits()[cause]));
  } else if (state_ == State::kRunning && stop_signal_ == 0 &&
             workers_.exits().back().status.code == exit_code::kPreempted) {
    parts_.hub.Drain(absl::StrCat("rank ", workers_.exits().back().rank, " was asked to stop"));
  }
  if (state_ == State::kEnding && certain) ReportCause();
  const bool ours = !remote_.has_value() || remote_->collateral;
  if (certain && ours && !announced_ && stop_signal_ == 0) Announce(workers_.exits()[cause]);
}

void Supervisor::HandleStopSignal() {
  signalfd_siginfo info;
  while (read(parts_.stop_signals, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    Stop(signal, SignalName(signal));
  }
}

void Supervisor::Stop(int signal, const std::string& reason) {
  const bool listens = options_.plan.job || workers_.AllAttached();
  const auto [action, history] = DecideStop(stop_, signal, listens, Now());
  stop_ = history;
  const int passed_on = signal == kNoticeSignal ? SIGTERM : signal;
  if (action == StopAction::kIgnore) {
    if (signal == kNoticeSignal) PrintToUser(reason);
    return;
  }
  const bool theirs = signal == SIGUSR1 || signal == SIGUSR2;  // to understand
  if (action == StopAction::kPassOn && theirs) return workers_.Signal(signal);
  stop_signal_ = passed_on;
  if (state_ == State::kJoining) return Finish(DecideNextStep(Result(), budget_));
  if (action == StopAction::kKill) {
    killed_ = true;
    kill_at_ = absl::InfinitePast();
    return PrintToUser(absl::StrCat(reason, " again: killing all workers"));
  }
  if (state_ == State::kEnding) return;
  if (state_ == State::kDone) return EndGeneration();
  if (action == StopAction::kDrain) {
    PrintToUser(absl::StrCat(reason, ": the workers checkpoint and stop",
                             signal == SIGTERM || signal == SIGINT ? "; again to kill them now" : ""));
    parts_.hub.Drain(reason);
    start_kill_at_ = Now() + kStartLimit;
  } else {
    if (signal == kNoticeSignal) PrintToUser(absl::StrCat(reason, ": the workers get SIGTERM"));
    workers_.Signal(passed_on);
    kill_at_ = Now() + kSignalLimit;
  }
}

void Supervisor::HandleTime() {
  const absl::Time now = Now();
  if (now >= explain_until_) return EndGeneration();
  if (now >= start_kill_at_) {
    start_kill_at_ = absl::InfiniteFuture();
    if (state_ == State::kRunning && !workers_.AllStarted()) {
      PrintToUser("the workers have not begun to train: they are killed, there is nothing to save");
      kill_at_ = now;
    }
  }
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    workers_.Signal(SIGKILL);
    spawner_at_ = now + kSpawnerPatience;
  }
  if (now >= spawner_at_) WatchSpawner();
  if (now >= join_at_) JoinWhenReady();
  if (state_ == State::kRunning && now >= tick_at_) {
    if (now > tick_at_ + kOwnStop) workers_.ForgiveSilence(now);
    HangLimits limits = options_.hang_limits;
    if (nodes_ > 1) limits.no_step += kRemotePatience;
    if (workers_.KillHung(now, limits)) spawner_at_ = now + kSpawnerPatience;
    Measure(now);
    tick_at_ = now + kTick;
  }
  if (now >= serve_at_) {
    serve_at_ = absl::InfiniteFuture();
    serve_restarts_.OnStart(now);
    const ProcessSpec spec = {.argv = options_.serve_argv, .environment = options_.plan.environment.ToStrings()};
    const int quiet = serve_restarts_.quiet() ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    const int output = quiet >= 0 ? quiet : STDERR_FILENO;
    parts_.spawner.Spawn(Spawner::kEarlyChildTag, spec, output, output).IgnoreError();  // its death is told
    if (quiet >= 0) close(quiet);
  }
}

// A worker was killed and its end is not told.
void Supervisor::WatchSpawner() {
  spawner_at_ = workers_.AllGone() ? absl::InfiniteFuture() : Now() + kSpawnerPatience;
  if (spawner_at_ == absl::InfiniteFuture() || !parts_.spawner.IsStuck()) return;
  PrintToUser("composer-spawn, which starts the workers, does not do what it is asked: it is killed");
  parts_.spawner.KillStuck();
}

}  // namespace composer
