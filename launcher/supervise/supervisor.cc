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

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "launcher/workers/outside_fault.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(500);
constexpr absl::Duration kSpawnerPatience = absl::Seconds(10);  // from a SIGKILL to the worker's end
constexpr absl::Duration kOwnStop = absl::Seconds(5);           // a tick this late: this process was stopped itself
// A rank that waits for a hung one on another node is never named before it.
constexpr absl::Duration kRemotePatience = absl::Seconds(2);

}  // namespace

absl::Time Supervisor::Now() { return RealClock::Get().Now(); }

Supervisor::Supervisor(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      logs_(parts_.console, options_.plan.colours),
      workers_(options_.plan, parts_.spawner, logs_),
      recorder_(options_.plan.place.run_name, options_.plan.run_folder, options_.launched,
                ReadHistory(options_.plan.run_folder)),
      state_({.job = options_.plan.job,
              .max_restarts = options_.plan.place.max_restarts,
              .min_nodes = options_.min_nodes,
              .run_folder = options_.plan.run_folder}),
      barrier_(grpc::CreateCustomChannel(parts_.hub.address(), grpc::InsecureChannelCredentials(),
                                         ChannelSettings(Link::kLocal)),
               options_.plan.place.job),
      meter_(options_.launched),
      serves_(options_.serves) {
  serve_restarts_.OnStart(Now());
}

int Supervisor::Run() {
  Do(job_action::Join{});
  while (!finished()) WaitForEvents();
  return state_.exit_code();
}

void Supervisor::WaitForEvents() {
  pollfd polls[3] = {
      {parts_.spawner.fd(), POLLIN, 0}, {parts_.mailbox.fd(), POLLIN, 0}, {parts_.stop_signals, POLLIN, 0}};
  const absl::Time tick = running() ? tick_at_ : absl::InfiniteFuture();
  const absl::Time wake = std::min({tick, spawner_at_, serve_at_, state_.NextWake()});
  const absl::Duration wait = std::clamp(wake - Now(), absl::ZeroDuration(), absl::Hours(1));
  poll(polls, 3, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)))));
  if (polls[1].revents != 0) {
    for (SupervisorEvent& event : parts_.mailbox.Take()) {
      if (finished()) return;
      std::visit([this](auto& e) { Handle(std::move(e)); }, event);
    }
  }
  if (!finished() && polls[2].revents != 0) HandleStopSignals();
  if (!finished() && polls[0].revents != 0) HandleSpawner();
  if (!finished()) HandleTime();
}

void Supervisor::Apply(JobEvent event) {
  events_.push_back(std::move(event));
  if (applying_) return;
  applying_ = true;
  const absl::Cleanup done = [this] { applying_ = false; };
  while (!events_.empty()) {
    const JobEvent next = std::move(events_.front());
    events_.pop_front();
    for (const JobAction& action : state_.On(next, Facts(), Now())) {
      std::visit([this](const auto& a) { Do(a); }, action);
    }
  }
}

WorkerFacts Supervisor::Facts() const {
  return {.exits = workers_.exits(),
          .all_gone = workers_.AllGone(),
          .all_attached = workers_.AllAttached(),
          .all_started = workers_.AllStarted(),
          .trained = workers_.Trained(),
          .progress = recorder_.Advanced(workers_.Progress())};
}

void Supervisor::Handle(absl::StatusOr<proto::World> world) {
  if (!world.ok()) return Apply(job_event::JoinFailed{world.status()});
  world_ = *std::move(world);
  Apply(job_event::WorldJoined{.generation = world_->generation(),
                               .nodes = world_->nodes(),
                               .world_size = world_->world_size(),
                               .tally = FromProto(world_->tally())});
}

void Supervisor::Handle(const proto::GenerationOver& over) {
  Apply(job_event::GenerationOver{over.generation(), FromProto(over.cause())});
}

void Supervisor::Handle(const proto::Resize& resize) {
  Apply(job_event::ResizeAsked{resize.generation(), resize.reason(), resize.checkpoint()});
}

void Supervisor::Handle(const WorkerHub::Report& report) {
  if (report.generation != state_.generation() || workers_.FindRank(report.rank) == nullptr) return;
  workers_.OnReport(report.rank, report.message);
  if (report.message.has_checkpoint_saved()) Apply(job_event::CheckpointSaved{});
  if (recorder_.OnReport(report.message)) SaveSummary();  // also of a launch that will be killed as a whole
}

void Supervisor::Handle(const Notice& notice) {
  Apply(job_event::StopAsked{kNoticeSignal, DescribeNotice(notice, absl::Now())});
}

void Supervisor::HandleSpawner() {
  const auto events = parts_.spawner.TakeEvents();
  if (!events.ok()) {
    const bool leftovers_gone = parts_.spawner.KillLeftovers();
    return Apply(job_event::SpawnerLost{
        absl::StrCat("composer-spawn, which starts the workers, ", parts_.spawner.exit().ToString()), leftovers_gone});
  }
  for (const SpawnerEvent& event : *events) {
    if (event.tag == Spawner::kEarlyChildTag) {
      if (event.kind != SpawnerEvent::Kind::kStarted) OnServerGone(event.exit);
      continue;
    }
    switch (event.kind) {
      case SpawnerEvent::Kind::kStarted:
        workers_.OnStarted(event.tag, event.pid);
        continue;
      case SpawnerEvent::Kind::kSpawnFailed:
        workers_.OnSpawnFailed(event.tag, event.failure);
        break;
      case SpawnerEvent::Kind::kExited:
        workers_.OnExited(event.tag, event.exit);
        break;
    }
    Apply(job_event::WorkersChanged{});
    if (finished()) return;
  }
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

void Supervisor::HandleStopSignals() {
  signalfd_siginfo info;
  while (read(parts_.stop_signals, &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    Apply(job_event::StopAsked{signal, SignalName(signal)});
  }
}

void Supervisor::HandleTime() {
  const absl::Time now = Now();
  if (now >= state_.NextWake()) Apply(job_event::TimePassed{});
  if (now >= spawner_at_) WatchSpawner(now);
  if (running() && now >= tick_at_) WatchWorkers(now);
  if (now >= serve_at_) Serve(now);
}

void Supervisor::WatchWorkers(absl::Time now) {
  if (now > tick_at_ + kOwnStop) workers_.ForgiveSilence(now);
  HangLimits limits = options_.hang_limits;
  if (state_.nodes() > 1) limits.no_step += kRemotePatience;
  if (workers_.KillHung(now, limits)) spawner_at_ = now + kSpawnerPatience;
  Measure(now);
  tick_at_ = now + kTick;
}

// A worker was killed, and the spawner has not reported its end.
void Supervisor::WatchSpawner(absl::Time now) {
  const bool settled = workers_.AllGone() || state_.phase() == JobState::Phase::kJoining;
  spawner_at_ = settled ? absl::InfiniteFuture() : now + kSpawnerPatience;
  if (settled || !parts_.spawner.IsStuck()) return;
  PrintToUser("composer-spawn, which starts the workers, does not do what it is asked: it is killed");
  parts_.spawner.KillStuck();
}

void Supervisor::Serve(absl::Time now) {
  serve_at_ = absl::InfiniteFuture();
  serve_restarts_.OnStart(now);
  const ProcessSpec spec = {.argv = options_.serve_argv, .environment = options_.plan.environment.ToStrings()};
  const int quiet = serve_restarts_.quiet() ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  const int output = quiet >= 0 ? quiet : STDERR_FILENO;
  parts_.spawner.Spawn(Spawner::kEarlyChildTag, spec, output, output).IgnoreError();  // the spawner reports its end
  if (quiet >= 0) close(quiet);
}

void Supervisor::Do(const job_action::SendSignal& send) {
  workers_.Signal(send.signal, send.only_unattached);
  if (send.signal == SIGKILL) spawner_at_ = Now() + kSpawnerPatience;
}

void Supervisor::Do(const job_action::StartWorkers&) {
  spawner_at_ = absl::InfiniteFuture();
  tick_at_ = Now() + kTick;
  const absl::Status status = StartWorkers(*world_);
  if (status.ok()) return;
  if (!IsOutsideFault(status)) return Apply(job_event::StartFailed{status});
  workers_.OnStartFailed(status);
  Apply(job_event::WorkersChanged{});
}

void Supervisor::Do(const job_action::LoseWorkers& loss) {
  workers_.OnSpawnerGone(loss.how);
  Apply(job_event::WorkersChanged{});
}

void Supervisor::Do(const job_action::RestartSpawner&) {
  const absl::Status status = parts_.spawner.Restart();
  if (status.ok() && serves_) serve_at_ = Now();
  Apply(job_event::SpawnerRestarted{status});
}

void Supervisor::Do(const job_action::ArriveAtBarrier&) {
  parts_.link.WorkersEnded();
  const uint64_t generation = state_.generation();
  barrier_.Arrive(generation, state_.nodes(), [this, generation](absl::Status status) {
    parts_.mailbox.Post(job_event::BarrierPassed{generation, std::move(status)});
  });
}

void Supervisor::Do(const job_action::LookForRoom& look) { Apply(job_event::RoomLooked{HasRoom(look.folder)}); }

}  // namespace composer
