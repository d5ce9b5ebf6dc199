// Runs a job on this node: an event loop on one thread that turns what happens into events of JobState and carries out
// the actions that come back. Other threads only post to its mailbox. What is decided here concerns single parts: which
// worker hangs (hang_detector), whether the spawner is stuck, when the rendezvous is served again (serve_restarts).
// Which action does what is in supervisor_actions.cc; the answers to those who ask from outside in
// supervisor_status.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/console.h"
#include "base/mailbox.h"
#include "launcher/control/control_server.h"
#include "launcher/platform/preemption_notice.h"
#include "launcher/process/spawner.h"
#include "launcher/rendezvous/rendezvous_link.h"
#include "launcher/supervise/exit_barrier.h"
#include "launcher/supervise/failure_message.h"
#include "launcher/supervise/goodput.h"
#include "launcher/supervise/job_state.h"
#include "launcher/supervise/run_recorder.h"
#include "launcher/supervise/serve_restarts.h"
#include "launcher/workers/rank_logs.h"
#include "launcher/workers/worker_group.h"
#include "launcher/workers/worker_hub.h"

namespace composer {

struct ServeRequest {};  // see RendezvousLink::Handlers::on_serve
struct LookRequest {};   // see RendezvousLink::Handlers::on_look
// What other threads tell the supervisor.
using SupervisorEvent =
    std::variant<absl::StatusOr<proto::World>, proto::GenerationOver, proto::Resize, WorkerHub::Report,
                 job_event::BarrierPassed, Notice, ControlRequest, ServeRequest, LookRequest>;

class Supervisor {
 public:
  struct Options {
    std::string node_id;
    std::string host;
    int min_nodes = 1;
    HangLimits hang_limits;
    WorkerPlan plan;
    std::vector<std::string> serve_argv;  // starts the rendezvous: again, or in place of a host that was lost
    bool serves = false;                  // it runs here from the start
    absl::Time launched;                  // wall time
  };

  // The parts outlive the supervisor. `stop_signals`: a signalfd.
  struct Parts {
    Spawner& spawner;
    RendezvousLink& link;
    WorkerHub& hub;
    Mailbox<SupervisorEvent>& mailbox;
    int stop_signals;
    Console& console;
  };

  Supervisor(Options options, Parts parts);

  // Blocks until the end; returns the launcher's exit code.
  int Run();
  // Whether this node was the first one of the last world.
  bool first_node() const { return first_node_; }

 private:
  static absl::Time Now();

  void WaitForEvents();
  void Handle(absl::StatusOr<proto::World> world);
  void Handle(const proto::GenerationOver& over);
  void Handle(const proto::Resize& resize);
  void Handle(const WorkerHub::Report& report);
  void Handle(const job_event::BarrierPassed& answer) { Apply(answer); }
  void Handle(ControlRequest request);
  void Handle(const Notice& notice);
  void Handle(const ServeRequest& request);
  void Handle(const LookRequest& request);
  void HandleSpawner();
  void HandleStopSignals();
  void HandleTime();
  void WatchWorkers(absl::Time now);
  void WatchSpawner(absl::Time now);
  void Serve(absl::Time now);
  void OnServerGone(ExitStatus status);

  // Handles the event, and those that carrying out its actions causes.
  void Apply(JobEvent event);
  WorkerFacts Facts() const;
  void Do(const job_action::Print& print);
  void Do(const job_action::Join& join);
  void Do(const job_action::StartWorkers&);
  void Do(const job_action::Drain& drain);
  void Do(const job_action::SendSignal& send);
  void Do(const job_action::EndWorkers& end);
  void Do(const job_action::MarkFailure&);
  void Do(const job_action::ReportCause& report);
  void Do(const job_action::Announce& announce);
  void Do(const job_action::AmendCause& amend);
  void Do(const job_action::LoseWorkers& loss);
  void Do(const job_action::RestartSpawner&);
  void Do(const job_action::ArriveAtBarrier&);
  void Do(const job_action::CloseGeneration&);
  void Do(const job_action::Conclude& conclude);
  void Do(const job_action::Repeat& repeat) { Apply(repeat.over); }
  void Do(const job_action::Sweep&);
  void Do(const job_action::LookForRoom& look);
  void Do(const job_action::SaveSummary&);
  void Do(const job_action::Finish&);

  bool finished() const { return state_.phase() == JobState::Phase::kFinished; }
  bool running() const { return state_.phase() == JobState::Phase::kRunning; }
  absl::Status StartWorkers(const proto::World& world);
  FailureReport Report(const WorkerExit& exit);
  void SaveSummary();
  proto::JobStatus Describe() const;
  void Measure(absl::Time now);

  const Options options_;
  Parts parts_;
  RankLogs logs_;
  WorkerGroup workers_;
  RunRecorder recorder_;
  JobState state_;
  ExitBarrier barrier_;
  GoodputMeter meter_;

  std::deque<JobEvent> events_;  // that wait for the one that is being handled
  bool applying_ = false;
  std::optional<proto::World> world_;  // the last one that was joined
  bool told_by_worker_ = false;        // the cause is the user's mistake, and a rank has shown it
  bool first_node_ = true;             // of the last world
  bool writes_summary_ = false;        // one node of the world does
  absl::Time tick_at_ = absl::InfinitePast();
  absl::Time spawner_at_ = absl::InfiniteFuture();  // look whether the spawner does what it is asked
  bool serves_ = false;
  absl::Time serve_at_ = absl::InfiniteFuture();  // start the rendezvous again
  ServeRestarts serve_restarts_;
};

}  // namespace composer
