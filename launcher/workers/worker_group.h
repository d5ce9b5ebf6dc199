// The workers of one generation on this node: their processes, pipes and progress pages, and how each one ended.
// Threads: the supervisor's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/env.h"
#include "contract/progress_page.h"
#include "launcher/process/oom_watch.h"
#include "launcher/process/spawner.h"
#include "launcher/workers/hang_detector.h"
#include "launcher/workers/output_plan.h"
#include "launcher/workers/rank_logs.h"
#include "launcher/workers/startup_watch.h"
#include "launcher/workers/worker_environment.h"
#include "launcher/workers/worker_exit.h"
#include "proto/worker.pb.h"

namespace composer {

// What to run; the same for every generation.
struct WorkerPlan {
  std::vector<std::string> argv;  // argv[0] absolute
  Environment environment;        // as inherited
  bool job = false;               // our own workers: they attach, checkpoint on a stop, and may use the rendezvous port
  std::string run_folder;         // logs go there; "": no log files
  std::string temp_folder;        // for progress pages
  bool tee = false;               // the terminal shows all ranks
  OutputOptions output;
  LogColours colours;
  size_t first_argument = 0;  // of argv that is expanded by ExpandArgument; 0: none is
  std::string role = "default";
  std::string interface;     // see WorkerPlace
  int terminal_columns = 0;  // of the launcher's terminal; 0: none
  std::string terminal;      // its device; "": not known
  std::vector<int> cpus;     // of this node
  int first_local_rank = 0;  // see WorkerPlace
  int node_workers = 0;
  int cpu_sharers = 0;      // workers of all launchers that share `cpus`; 0: of this one alone
  int first_cpu_share = 0;  // index of our local rank 0 among them
  bool blocks_signals =
      false;  // our own workers hear of a stop from the hub alone: Slurm may signal every process of a step
};

// `<run folder>/logs/gen-001/rank-00000.log`; attempts count from 1 in each launch.
std::string LogPath(const std::string& run_folder, int attempt, int rank);

struct Worker {
  WorkerPlace place;
  ProgressPage page;
  pid_t pid = 0;            // 0: not started yet
  bool attached = false;    // has said Hello
  int64_t heartbeats = 0;   // heard over the hub
  int signal_on_start = 0;  // sent as soon as the pid is known
  bool signalled = false;   // we have sent it a signal
  std::string hang;         // why we took it for hung
  bool gone = false;
  int64_t resident_bytes = -1;  // when last heard of
  std::string last_word;        // out of its ExitReport
  std::string error;            // ReportedError of it
  ActivityTracker activity;
  StartupTracker startup;
  absl::Time look_at;  // when to look at its process next, while it starts
};

class WorkerGroup {
 public:
  WorkerGroup(WorkerPlan plan, Spawner& spawner, RankLogs& logs);

  // Starts one worker for each local rank. `first` is local rank 0's place; `attempt` names the log folder.
  absl::Status Start(const WorkerPlace& first, int attempt);

  // Start has failed for a reason that is nobody's mistake: the rank that could not be started has ended with 70 and these
  // words, those before it are killed.
  void OnStartFailed(const absl::Status& failure);

  // Events of the spawner with the tag of a worker.
  void OnStarted(int local_rank, pid_t pid);
  void OnSpawnFailed(int local_rank, const absl::Status& failure);
  void OnExited(int local_rank, ExitStatus status);
  // The spawner has ended, and all its workers with it. `how`: for people; the first one is the cause, if there is none yet.
  void OnSpawnerGone(const std::string& how);
  // What the hub hears of a worker.
  void OnReport(int rank, const proto::WorkerMessage& message);

  // All workers have been told to leave; who ends much later did not cause the end.
  void OnNews(absl::Time now) { told_at_ = std::min(told_at_, now); }

  // Signals every worker that is not gone; `only_unattached` leaves out those who listen to the hub.
  void Signal(int signal, bool only_unattached = false);

  // Looks at the progress pages and, of workers that start, at their processes now and then; a hung worker is marked and killed, its exit follows.
  // Whether there was one.
  bool KillHung(absl::Time now, const HangLimits& limits);
  // The launcher itself was stopped until now: nobody hangs.
  void ForgiveSilence(absl::Time now);

  bool AllGone() const;
  bool AllAttached() const;
  // Each has done its first step of this generation, or has ended. Programs, which do not say, have once they run.
  bool AllStarted() const;
  const std::vector<WorkerExit>& exits() const { return exits_; }  // in the order they were seen
  std::vector<ProgressSnapshot> Progress() const;
  // A rank has begun to train; always true of programs, which do not say.
  bool Trained() const;
  Worker* FindRank(int rank);
  const std::vector<Worker>& workers() const { return workers_; }  // by local rank
  const WorkerPlan& plan() const { return plan_; }

 private:
  absl::Status StartOne(const WorkerPlace& place, const std::string& log_path);
  std::vector<std::string> ArgumentsOf(const Environment& environment) const;
  void ObserveStartup(Worker& worker, const ProgressSnapshot& page, absl::Time now, absl::Duration interval);
  void SignalOne(Worker& worker, int signal);
  std::string KilledBy(const Worker& worker, ExitStatus status);

  const WorkerPlan plan_;
  Spawner& spawner_;
  RankLogs& logs_;
  std::vector<Worker> workers_;  // by local rank
  std::vector<WorkerExit> exits_;
  int first_rank_ = 0;
  OomWatch oom_watch_{OomWatch::Places{}};
  absl::Time told_at_ = absl::InfiniteFuture();
};

}  // namespace composer
