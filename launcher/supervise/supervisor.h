// The life of a job on this node: join -> start the workers -> watch -> decide -> next generation, until the end.
//
//   kJoining --World--> kRunning --first failure--> kEnding --all gone--> decide: kJoining again, or finished
//                                 --all gone------------------------------^
// In a world of several nodes "done" is kDone first, until all nodes are (ExitBarrier).
//
// In a world of several nodes the launcher with the first cause decides for all; its verdict comes with GenerationOver. An
// exit with 69 is no cause as long as another node may still explain it: the decision then waits kExplainWait.
//
// An event loop on one thread (supervisor.cc; how a generation ends is in supervisor_ending.cc); other threads only post
// to its mailbox. The decisions are in restart_policy and
// hang_detector.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/run_recorder.h"
#include "launcher/supervise/serve_restarts.h"
#include "launcher/supervise/stop_request.h"
#include "launcher/workers/rank_logs.h"
#include "launcher/workers/worker_group.h"
#include "launcher/workers/worker_hub.h"

namespace composer {

// What other threads tell the supervisor.
struct BarrierAnswer {  // see ExitBarrier
  uint64_t generation;
  absl::Status status;
};
struct ServeRequest {};  // see RendezvousLink::Handlers::on_serve
struct LookRequest {};   // see RendezvousLink::Handlers::on_look
using SupervisorEvent =
    std::variant<absl::StatusOr<proto::World>, proto::GenerationOver, proto::Resize, WorkerHub::Report, BarrierAnswer,
                 Notice, ControlRequest, ServeRequest, LookRequest>;

class Supervisor {
 public:
  struct Options {
    std::string job;
    std::string node_id;
    std::string host;
    int rendezvous_port = 0;
    std::string run_name;  // jobs only
    int max_restarts = 0;
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

  // Until the end; returns the launcher's exit code.
  int Run();
  // Whether this node was the first one of the last world.
  bool first_node() const { return first_node_; }

 private:
  enum class State { kJoining, kRunning, kEnding, kDone, kFinished };

  static absl::Time Now();

  static constexpr absl::Duration kSignalLimit = absl::Seconds(30);  // for programs that only know signals
  static constexpr absl::Duration kStartLimit = absl::Seconds(10);   // for workers that start: there is nothing to save
  static constexpr absl::Duration kExplainWait =
      absl::Milliseconds(3200);  // longer than a silent node stays undetected

  void WaitForEvents();
  void Handle(absl::StatusOr<proto::World> world);
  void Handle(const proto::GenerationOver& over);
  void Handle(const proto::Resize& resize);
  void Handle(const WorkerHub::Report& report);
  void Handle(const BarrierAnswer& answer);
  void Handle(ControlRequest request);
  void Handle(const Notice& notice);
  void Handle(const ServeRequest& request);
  void Handle(const LookRequest& request);
  void HandleSpawner();
  void OnSpawnerGone();
  void HandleStopSignal();
  void HandleTime();

  absl::Status StartWorkers(const proto::World& world);
  void OnWorkerGone();
  void OnServerGone(ExitStatus status);
  void Stop(int signal, const std::string& reason);
  void StopNow(const std::string& reason);
  void BeginEnding(const std::string& cause);
  void ReportCause();
  FailureReport Report(const WorkerExit& exit);
  void Announce(const WorkerExit& cause);
  void SaveSummary();
  void EndGeneration();
  void JoinAgain(const Verdict& verdict);
  void JoinWhenReady();
  void WatchSpawner();
  void Conclude(const Verdict& verdict);
  void Finish(const Verdict& verdict);
  void Fail(int code, const std::string& reason);

  proto::JobStatus Describe() const;
  void Measure(absl::Time now);
  GenerationResult Result() const;
  bool MayBeExplained() const;
  absl::Time NextWake() const;

  const Options options_;
  Parts parts_;
  RankLogs logs_;
  WorkerGroup workers_;
  RunRecorder recorder_;
  RestartBudget budget_;
  ExitBarrier barrier_;
  GoodputMeter meter_;

  State state_ = State::kJoining;
  int exit_code_ = 0;
  uint64_t generation_ = 0;      // the rendezvous's number
  int nodes_ = 1;                // of its world
  int world_size_ = 0;           // its ranks
  bool announced_ = false;       // its first cause was told
  bool told_by_worker_ = false;  // the cause is the user's mistake, and a rank has shown it
  bool all_done_ = false;        // on every node
  int reported_ = -1;            // index of the exit that the other nodes heard of; -1: none
  std::optional<RemoteEnd> remote_;
  std::string
      resize_reason_;  // why the workers were asked to stop, so that the world can form again; "": they were not
  StopHistory stop_;
  int stop_signal_ = 0;  // what is being followed; SIGTERM for a notice
  bool killed_ = false;
  bool first_node_ = true;       // of the last world
  bool writes_summary_ = false;  // one node of the world does
  absl::Time kill_at_ = absl::InfiniteFuture();
  absl::Time start_kill_at_ = absl::InfiniteFuture();  // those who are asked to stop and still start are killed
  absl::Time spawner_at_ = absl::InfiniteFuture();     // look whether the spawner does what it is asked
  absl::Time join_at_ = absl::InfiniteFuture();        // the pause before a restart is over
  std::string room_;                                   // the restart waits for room there; "": it does not
  absl::Time room_until_ = absl::InfinitePast();       // for so long
  std::string stalled_by_;                             // the stall that was told, and need not be again; "": none
  int quick_deaths_ = 0;                               // of spawners, one right after the other
  absl::Time spawner_since_ = absl::InfinitePast();
  absl::Time explain_until_ = absl::InfiniteFuture();  // all are gone, the decision waits
  absl::Time tick_at_ = absl::InfinitePast();
  bool serves_ = false;
  absl::Time serve_at_ = absl::InfiniteFuture();  // start the rendezvous again
  ServeRestarts serve_restarts_;
};

}  // namespace composer
