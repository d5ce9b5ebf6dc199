// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor.h"

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
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/console.h"
#include "launcher/node_resources.h"
#include "launcher/placement.h"
#include "rendezvous/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kLeaveLimit = absl::Milliseconds(300);    // for workers that were told over the hub
constexpr absl::Duration kSignalLimit = absl::Seconds(30);         // for programs that only know signals
constexpr absl::Duration kServeInterval = absl::Seconds(1);        // between two starts of the rendezvous
constexpr absl::Duration kOwnStop = absl::Seconds(5);              // a tick this late: we were stopped ourselves
constexpr absl::Duration kExplainWait = absl::Milliseconds(3200);  // longer than a silent node stays undetected
// A rank that waits for a hung one on another node is never named before it.
constexpr absl::Duration kRemotePatience = absl::Seconds(2);

absl::Time Now() { return RealClock::Get().Now(); }

}  // namespace

Supervisor::Supervisor(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      logs_(options_.plan.colours),
      workers_(options_.plan, parts_.keeper, logs_),
      recorder_(options_.run_name, options_.plan.run_folder, options_.launched),
      budget_{.max_restarts = options_.max_restarts, .tally = {}},
      barrier_(grpc::CreateCustomChannel(parts_.hub.address(), grpc::InsecureChannelCredentials(),
                                         ChannelSettings(Link::kLocal)),
               options_.job),
      meter_(options_.launched),
      serves_(options_.serves),
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
  return std::min({tick, kill_at_, serve_at_, explain_until_});
}

void Supervisor::Handle(absl::StatusOr<proto::World> world) {
  if (!world.ok() && state_ == State::kDone) return Handle(BarrierAnswer{generation_, world.status()});
  if (!world.ok()) {
    const bool refused = absl::IsInvalidArgument(world.status()) || absl::IsUnauthenticated(world.status());
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
  place.restart_count = budget_.tally.restarts;
  place.max_restarts = options_.max_restarts;
  place.cpus = static_cast<int>(options_.plan.cpus.size());
  place.job = options_.job;
  place.run_name = options_.run_name;
  place.hub = parts_.hub.address();
  if (!options_.plan.job) place.master_port = world.master_port();  // scripts bind it themselves
  first_node_ = place.node_rank == 0;
  writes_summary_ = options_.plan.job && first_node_;
  generation_ = world.generation();
  nodes_ = place.nodes;
  announced_ = all_done_ = false;
  reported_ = -1;
  remote_.reset();
  regrouping_.clear();
  kill_at_ = explain_until_ = absl::InfiniteFuture();
  tick_at_ = Now() + kTick;
  parts_.hub.BeginGeneration(generation_);
  recorder_.BeginGeneration(world.world_size());
  state_ = State::kRunning;
  LOG(INFO) << "generation " << generation_ << ": " << world.world_size() << " ranks, " << world.reason();
  return workers_.Start(place, place.restart_count + 1);
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
    Tell(remote_->cause);
    announced_ = true;
  }
  if (state_ == State::kRunning) return BeginEnding(remote_->cause);
  if (state_ == State::kDone || (state_ == State::kEnding && workers_.AllGone())) return EndGeneration();
  if (state_ != State::kJoining || remote_->collateral) return;
  recorder_.Amend(remote_->cause);
  if (remote_->verdict.has_value() && remote_->verdict->next == NextStep::kGiveUp) Finish(*remote_->verdict);
}

// The world grows: as on a stop signal, but then the next generation. Programs cannot be asked, see PlanServe.
void Supervisor::Handle(const proto::Regroup& regroup) {
  if (state_ != State::kRunning || regroup.generation() != generation_ || stop_signal_ != 0) return;
  regrouping_ = regroup.reason();
  Tell(absl::StrCat(regrouping_, ": the workers checkpoint and start again"));
  parts_.hub.Drain(regrouping_);
}

void Supervisor::Handle(const WorkerHub::Report& report) {
  if (report.generation != generation_ || workers_.FindRank(report.rank) == nullptr) return;
  workers_.OnReport(report.rank, report.message);
  recorder_.OnReport(report.message);
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

void Supervisor::Handle(const ServeRequest&) {
  if (options_.serve_argv.empty()) return;
  Tell("the host of the rendezvous is lost; serving it here from now on");
  serves_ = true;
  serve_at_ = Now();
}

void Supervisor::OnServerGone(ExitStatus status) {
  if (!serves_) return;  // another launcher serves it
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
  if (state_ == State::kEnding && certain) ReportCause();
  const bool ours = !remote_.has_value() || remote_->collateral;
  if (certain && ours && !announced_ && stop_signal_ == 0) Announce(workers_.exits()[cause]);
}

// Every rank is to leave: those on the hub by its word, others by SIGTERM, all by SIGKILL in the end.
void Supervisor::BeginEnding(const std::string& cause) {
  state_ = State::kEnding;
  recorder_.OnFailure(absl::Now());
  ReportCause();
  parts_.hub.EndGeneration(cause);
  workers_.OnNews(Now());
  const bool patient = !options_.plan.job && !workers_.AllAttached();
  kill_at_ = std::min(kill_at_, Now() + (patient ? kSignalLimit : kLeaveLimit));
  workers_.Signal(SIGTERM, /*only_unattached=*/true);
}

// Tells the other nodes our first cause and what follows from it; again when a better one has come up.
void Supervisor::ReportCause() {
  bool certain = false;
  const int cause = FirstCause(workers_.exits(), &certain);
  if (cause < 0 || cause == reported_ || (remote_.has_value() && !(certain && remote_->collateral))) return;
  reported_ = cause;
  proto::FailureCause message = ToProto(Report(workers_.exits()[cause]), options_.node_id, certain, absl::Now());
  const Verdict verdict = DecideNextStep(Result(), budget_);
  if (certain && (verdict.next == NextStep::kRestart || verdict.next == NextStep::kGiveUp)) {
    *message.mutable_verdict() = ToProto(verdict);
  }
  parts_.link.ReportEnded(message);
}

FailureReport Supervisor::Report(const WorkerExit& exit, bool with_stderr) {
  const Worker& worker = *workers_.FindRank(exit.rank);
  FailureReport report = {.exit = exit, .node = options_.host, .pid = worker.pid, .last_word = worker.last_word};
  if (with_stderr) report.stderr_tail = logs_.StderrTail(exit.rank);
  if (options_.plan.job) report.log_path = LogPath(options_.plan.run_folder, worker.place.restart_count + 1, exit.rank);
  return report;
}

void Supervisor::Announce(const WorkerExit& cause) {
  announced_ = true;
  const bool shown = options_.plan.tee || cause.rank == 0 || !options_.plan.job;
  const bool just_above = shown && cause.status.code == exit_code::kUserError;
  FailureReport report = Report(cause, /*with_stderr=*/!just_above);
  if (just_above) report.last_word.clear();
  Tell(DescribeFailure(report));
}

// Nothing here says why, and another node may.
bool Supervisor::MayBeExplained() const {
  bool certain = false;
  return FirstCause(workers_.exits(), &certain) >= 0 && !certain && nodes_ > 1 &&
         (!remote_.has_value() || remote_->collateral);
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
    if (signal == kNoticeSignal) Tell(reason);
    return;
  }
  const bool theirs = signal == SIGUSR1 || signal == SIGUSR2;  // to understand
  if (action == StopAction::kPassOn && theirs) return workers_.Signal(signal);
  stop_signal_ = passed_on;
  if (state_ == State::kJoining) return Finish(DecideNextStep(Result(), budget_));
  if (action == StopAction::kKill) {
    killed_ = true;
    kill_at_ = absl::InfinitePast();
    return Tell(absl::StrCat(reason, " again: killing all workers"));
  }
  if (state_ == State::kEnding) return;
  if (state_ == State::kDone) return EndGeneration();
  if (action == StopAction::kDrain) {
    Tell(absl::StrCat(reason, ": the workers checkpoint and stop",
                      signal == SIGTERM || signal == SIGINT ? "; again to kill them now" : ""));
    parts_.hub.Drain(reason);
  } else {
    if (signal == kNoticeSignal) Tell(absl::StrCat(reason, ": the workers get SIGTERM"));
    workers_.Signal(passed_on);
    kill_at_ = Now() + kSignalLimit;
  }
}

void Supervisor::HandleTime() {
  const absl::Time now = Now();
  if (now >= explain_until_) return EndGeneration();
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    workers_.Signal(SIGKILL);
  }
  if (state_ == State::kRunning && now >= tick_at_) {
    if (now > tick_at_ + kOwnStop) workers_.ForgiveSilence(now);
    HangLimits limits = options_.hang_limits;
    if (nodes_ > 1) limits.no_step += kRemotePatience;
    workers_.KillHung(now, limits);
    Measure(now);
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
          .remote = remote_,
          .stop_signal = stop_signal_,
          .checkpoints_on_stop = options_.plan.job,
          .may_shrink = nodes_ > options_.min_nodes,
          .killed = killed_,
          .trained = !running || workers_.Trained(),
          .progress = running && recorder_.Advanced(workers_.Progress())};
}

void Supervisor::EndGeneration() {
  if (state_ == State::kRunning) recorder_.OnFailure(absl::Now());  // the last one to leave was the first to fail
  ReportCause();
  if (stop_signal_ == 0 && MayBeExplained() && Now() < explain_until_) {
    state_ = State::kEnding;
    if (explain_until_ == absl::InfiniteFuture()) explain_until_ = Now() + kExplainWait;
    return;
  }
  explain_until_ = absl::InfiniteFuture();
  Verdict verdict = DecideNextStep(Result(), budget_);
  if (verdict.next == NextStep::kPreempted && !regrouping_.empty() && stop_signal_ == 0) {
    verdict = {.next = NextStep::kRestart, .tally = budget_.tally, .reason = regrouping_};
  }
  if (verdict.next == NextStep::kDone && nodes_ > 1 && !all_done_ && stop_signal_ == 0) {
    state_ = State::kDone;
    parts_.link.WorkersEnded();
    return barrier_.Arrive(generation_, nodes_, [this, generation = generation_](absl::Status status) {
      parts_.mailbox.Post(BarrierAnswer{generation, std::move(status)});
    });
  }
  Measure(Now());
  meter_.EndGeneration();
  recorder_.EndGeneration(workers_.Progress());
  if (verdict.first_cause >= 0 && !announced_) Announce(workers_.exits()[verdict.first_cause]);
  if (verdict.next != NextStep::kRestart) return Finish(verdict);
  Conclude(verdict);
  budget_.tally = verdict.tally;
  state_ = State::kJoining;
  kill_at_ = absl::InfiniteFuture();
  parts_.keeper.Sweep();
  parts_.link.Join();
  logs_.Drain();
  SaveSummary();
}

// Says and notes, once, how a generation ended and what follows.
void Supervisor::Conclude(const Verdict& verdict) {
  const bool ended = state_ != State::kJoining;
  const std::vector<WorkerExit> exits = ended ? workers_.exits() : std::vector<WorkerExit>();
  const std::string collateral = verdict.next == NextStep::kDone ? "" : DescribeCollateral(exits, verdict.first_cause);
  LOG(INFO) << "generation " << generation_ << ": " << verdict.reason << "; " << verdict.decision
            << (collateral.empty() ? "" : "; ") << collateral;
  if (verdict.next != NextStep::kDone) {
    if (!announced_ && verdict.first_cause < 0) Tell(verdict.reason);
    if (!collateral.empty()) Tell(collateral);
    if (!verdict.decision.empty()) Tell(verdict.decision);
  }
  recorder_.Conclude(verdict, exits, absl::Now());
}

void Supervisor::Finish(const Verdict& verdict) {
  logs_.Drain();
  Conclude(verdict);
  state_ = State::kFinished;
  exit_code_ = verdict.exit_code;
  SaveSummary();
  if (options_.plan.job) Tell(DescribeRun(recorder_.summary()));
}

void Supervisor::SaveSummary() {
  if (!writes_summary_) return;
  if (absl::Status status = WriteSummary(recorder_.summary()); !status.ok()) Tell(status.message());
}

void Supervisor::Fail(int code, const std::string& reason) {
  Tell(reason);
  announced_ = true;
  Finish({.next = NextStep::kGiveUp, .exit_code = code, .first_cause = -1, .reason = reason});
}

}  // namespace composer
