// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/console.h"
#include "launcher/node_resources.h"
#include "launcher/placement.h"

namespace composer {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kLeaveLimit = absl::Milliseconds(300);  // for workers that were told over the hub
constexpr absl::Duration kSignalLimit = absl::Seconds(30);       // for programs that only know signals
constexpr absl::Duration kServeInterval = absl::Seconds(1);      // between two starts of the rendezvous
constexpr absl::Duration kOwnStop = absl::Seconds(5);            // a tick this late: we were stopped ourselves

absl::Time Now() { return RealClock::Get().Now(); }

// A first cause was announced already; what else happened, and what follows, is told here.
void TellVerdict(const Verdict& verdict) {
  if (verdict.next == NextStep::kDone) return;
  if (verdict.first_cause < 0) Tell(verdict.reason);
  if (!verdict.decision.empty()) Tell(verdict.decision);
}

}  // namespace

Supervisor::Supervisor(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      workers_(options_.plan, parts_.keeper, logs_),
      recorder_(options_.run_name, options_.plan.run_folder, options_.launched),
      budget_{.max_restarts = options_.max_restarts},
      served_at_(Now()) {}

int Supervisor::Run() {
  parts_.link.Join();
  while (state_ != State::kFinished) WaitForEvents();
  return exit_code_;
}

void Supervisor::WaitForEvents() {
  pollfd polls[3] = {
      {parts_.keeper.fd(), POLLIN, 0}, {parts_.mailbox.fd(), POLLIN, 0}, {parts_.stop_signals, POLLIN, 0}};
  const absl::Duration wait = std::clamp(NextWake() - Now(), absl::ZeroDuration(), absl::Hours(1));
  poll(polls, 3, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)))));
  if (polls[1].revents != 0) {
    for (SupervisorEvent& event : parts_.mailbox.Take()) {
      if (state_ == State::kFinished) return;
      std::visit([this](auto& e) { Handle(std::move(e)); }, event);
    }
  }
  if (state_ != State::kFinished && polls[2].revents != 0) HandleStopSignal();
  if (state_ != State::kFinished && polls[0].revents != 0) HandleKeeper();
  if (state_ != State::kFinished) HandleTime();
}

absl::Time Supervisor::NextWake() const {
  const absl::Time tick = state_ == State::kRunning ? tick_at_ : absl::InfiniteFuture();
  return std::min({tick, kill_at_, serve_at_});
}

void Supervisor::Handle(absl::StatusOr<proto::World> world) {
  if (!world.ok()) {
    const bool refused = absl::IsInvalidArgument(world.status());
    return Fail(refused ? exit_code::kUserError : exit_code::kUnavailable,
                absl::StrCat("cannot join: ", world.status().message()));
  }
  if (absl::Status status = StartWorkers(*world); !status.ok()) {
    Fail(absl::IsUnavailable(status) ? exit_code::kFailure : exit_code::kUserError, std::string(status.message()));
  }
}

absl::Status Supervisor::StartWorkers(const proto::World& world) {
  ASSIGN_OR_RETURN(WorkerPlace place, PlaceOf(world));
  place.master_port = options_.rendezvous_port;
  place.restart_count = attempt_;
  place.max_restarts = options_.max_restarts;
  place.cpus = static_cast<int>(options_.plan.cpus.size());
  place.job = options_.job;
  place.run_name = options_.run_name;
  place.hub = parts_.hub.address();
  if (!options_.plan.job) {
    ASSIGN_OR_RETURN(place.master_port, FreePort());  // scripts bind it themselves
  }
  generation_ = world.generation();
  announced_ = false;
  remote_cause_.clear();
  last_words_.clear();
  kill_at_ = absl::InfiniteFuture();
  tick_at_ = Now() + kTick;
  parts_.hub.BeginGeneration(generation_);
  recorder_.BeginGeneration(world.world_size());
  state_ = State::kRunning;
  LOG(INFO) << "generation " << generation_ << ": " << world.world_size() << " ranks, " << world.reason();
  return workers_.Start(place, ++attempt_);
}

void Supervisor::Handle(const proto::GenerationOver& over) {
  if (state_ != State::kRunning || over.generation() != generation_) return;
  remote_cause_ = absl::StrCat(over.cause().message(), " (node ", over.cause().node_id(), ")");
  Tell(remote_cause_);
  BeginEnding(remote_cause_);
}

void Supervisor::Handle(const WorkerHub::Report& report) {
  if (report.generation != generation_ || workers_.FindRank(report.rank) == nullptr) return;
  if (report.message.has_hello()) workers_.OnAttached(report.rank);
  if (report.message.has_progress()) workers_.OnHeartbeat(report.rank);
  if (report.message.has_exit_report()) last_words_[report.rank] = report.message.exit_report().message();
  recorder_.OnReport(report.message);
}

void Supervisor::HandleKeeper() {
  const auto events = parts_.keeper.TakeEvents();
  if (!events.ok()) {
    parts_.keeper.KillRemains();
    return Fail(exit_code::kFailure, "the keeper process died; every worker was ended");
  }
  for (const KeeperEvent& event : *events) {
    if (event.tag == Keeper::kEarlyChildTag) {
      if (event.kind != KeeperEvent::Kind::kStarted) OnServerGone(event.exit);
      continue;
    }
    switch (event.kind) {
      case KeeperEvent::Kind::kStarted:
        workers_.OnStarted(event.tag, event.pid);
        break;
      case KeeperEvent::Kind::kSpawnFailed:
        workers_.OnSpawnFailed(event.tag, event.failure);
        break;
      case KeeperEvent::Kind::kExited:
        workers_.OnExited(event.tag, event.exit);
        break;
    }
    if (event.kind != KeeperEvent::Kind::kStarted) OnWorkerGone();
    if (state_ == State::kFinished) return;
  }
}

void Supervisor::OnServerGone(ExitStatus status) {
  Tell(absl::StrCat("the rendezvous ", status.ToString(), "; starting it again, the workers go on"));
  serve_at_ = std::max(Now(), served_at_ + kServeInterval);
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
  if (certain && !announced_ && stop_signal_ == 0) Announce(workers_.exits()[cause]);
}

// Every rank is to leave: those on the hub by its word, others by SIGTERM, all by SIGKILL in the end.
void Supervisor::BeginEnding(const std::string& cause) {
  state_ = State::kEnding;
  recorder_.OnFailure(absl::Now());
  parts_.hub.EndGeneration(cause);
  const bool patient = !options_.plan.job && !workers_.AllAttached();
  kill_at_ = std::min(kill_at_, Now() + (patient ? kSignalLimit : kLeaveLimit));
  workers_.Signal(SIGTERM, /*only_unattached=*/true);
  if (!remote_cause_.empty()) return;
  const WorkerExit& first = workers_.exits()[FirstCause(workers_.exits(), nullptr)];
  parts_.link.ReportEnded(ToProto(Report(first), options_.node_id, absl::Now()));
}

FailureReport Supervisor::Report(const WorkerExit& exit) {
  FailureReport report = {.exit = exit,
                          .node = options_.host,
                          .pid = workers_.FindRank(exit.rank)->pid,
                          .last_word = last_words_[exit.rank],
                          .stderr_tail = logs_.StderrTail(exit.rank)};
  if (options_.plan.job) report.log_path = LogPath(options_.plan.run_folder, attempt_, exit.rank);
  return report;
}

void Supervisor::Announce(const WorkerExit& cause) {
  announced_ = true;
  FailureReport report = Report(cause);
  const bool shown = options_.plan.tee || cause.rank == 0 || !options_.plan.job;
  if (shown && cause.status.code == exit_code::kUserError) {  // it is just above
    report.stderr_tail.clear();
    report.last_word.clear();
  }
  Tell(DescribeFailure(report));
}

void Supervisor::HandleStopSignal() {
  signalfd_siginfo info;
  while (read(parts_.stop_signals, &info, sizeof(info)) == sizeof(info)) Stop(static_cast<int>(info.ssi_signo));
}

void Supervisor::Stop(int signal) {
  const bool listens = options_.plan.job || workers_.AllAttached();
  const bool user_signal = signal == SIGUSR1 || signal == SIGUSR2;
  if (user_signal && !listens) return workers_.Signal(signal);  // theirs to understand
  if (stop_signal_ != 0) {
    if (signal != SIGTERM && signal != SIGINT) return;
    killed_ = true;
    kill_at_ = absl::InfinitePast();
    Tell(absl::StrCat(SignalName(signal), " again: killing all workers"));
    return;
  }
  stop_signal_ = signal;
  if (state_ == State::kJoining) return Finish(DecideNextStep(Result(), budget_));
  if (state_ == State::kEnding) return;
  if (listens) {
    Tell(absl::StrCat(SignalName(signal), ": the workers checkpoint and stop; again to kill them now"));
    parts_.hub.Drain(SignalName(signal));
  } else {
    workers_.Signal(signal);
    kill_at_ = Now() + kSignalLimit;
  }
}

void Supervisor::HandleTime() {
  const absl::Time now = Now();
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    workers_.Signal(SIGKILL);
  }
  if (state_ == State::kRunning && now >= tick_at_) {
    if (now > tick_at_ + kOwnStop) workers_.ForgiveSilence(now);
    workers_.KillHung(now, options_.hang_limits);
    tick_at_ = now + kTick;
  }
  if (now >= serve_at_) {
    serve_at_ = absl::InfiniteFuture();
    served_at_ = now;
    const ProcessSpec spec = {.argv = options_.serve_argv, .environment = options_.plan.environment.ToStrings()};
    parts_.keeper.Spawn(Keeper::kEarlyChildTag, spec, STDERR_FILENO, STDERR_FILENO).IgnoreError();  // its death is told
  }
}

GenerationResult Supervisor::Result() const {
  const bool running = state_ != State::kJoining;
  return {.exits = running ? workers_.exits() : std::vector<WorkerExit>(),
          .remote_cause = remote_cause_,
          .stop_signal = stop_signal_,
          .checkpoints_on_stop = options_.plan.job,
          .killed = killed_,
          .progress = progress_};
}

void Supervisor::EndGeneration() {
  if (state_ == State::kRunning) recorder_.OnFailure(absl::Now());  // the last one to leave was the first to fail
  progress_ = recorder_.EndGeneration(workers_.Progress());
  const Verdict verdict = DecideNextStep(Result(), budget_);
  if (verdict.first_cause >= 0 && !announced_) Announce(workers_.exits()[verdict.first_cause]);
  if (verdict.next != NextStep::kRestart) return Finish(verdict);
  TellVerdict(verdict);
  budget_.spent = verdict.spent;
  state_ = State::kJoining;
  kill_at_ = absl::InfiniteFuture();
  parts_.keeper.Sweep();
  parts_.link.Join();
  logs_.Drain();
  recorder_.Conclude(verdict, absl::Now());
  SaveSummary();
}

void Supervisor::Finish(const Verdict& verdict) {
  state_ = State::kFinished;
  exit_code_ = verdict.exit_code;
  logs_.Drain();
  TellVerdict(verdict);
  recorder_.Conclude(verdict, absl::Now());
  SaveSummary();
  if (options_.plan.job) Tell(DescribeRun(recorder_.summary()));
}

void Supervisor::SaveSummary() {
  if (!options_.plan.job) return;
  if (absl::Status status = WriteSummary(recorder_.summary()); !status.ok()) Tell(status.message());
}

void Supervisor::Fail(int code, const std::string& reason) {
  Tell(reason);
  Finish({.next = NextStep::kGiveUp, .exit_code = code, .first_cause = 0, .reason = reason});
}

}  // namespace composer
