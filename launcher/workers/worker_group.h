// The workers of one generation on this node: their processes, pipes and progress pages, and how each one ended. Runs
// on the supervisor's thread only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/env.h"
#include "contract/progress_page.h"
#include "launcher/process/gpu_watch.h"
#include "launcher/process/oom_watch.h"
#include "launcher/process/processor_wait.h"
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
  std::vector<std::string> argv;  // argv[0] is absolute
  Environment environment;        // as inherited
  bool job = false;               // our own workers: they attach, checkpoint on a stop, and may use the rendezvous port
  std::string run_folder;         // for the logs; "" means no log files
  std::string temp_folder;        // for progress pages
  bool tee = false;               // the terminal shows all ranks
  OutputOptions output;
  LogColours colours;
  size_t first_argument = 0;  // first element of argv that ExpandArgument expands; 0 if none is
  WorkerPlace place;          // what all workers of this launch have in common; terminal_columns: of its terminal
  std::vector<int> cpus;      // of this node
  int first_cpu_share = 0;    // index of our local rank 0 among the workers that share them (place.cpu_sharers)
  // Our own workers hear of a stop only from the hub, because Slurm may signal every process of a step.
  bool blocks_signals = false;
};

// Returns `<run folder>/logs/gen-001/rank-00000.log`; attempts count from 1 in each launch.
std::string LogPath(const std::string& run_folder, int attempt, int rank);

struct Worker {
  WorkerPlace place;
  ProgressPage page;
  pid_t pid = 0;            // 0 before it is started
  bool attached = false;    // it has sent Hello
  int64_t heartbeats = 0;   // received over the hub
  int signal_on_start = 0;  // sent as soon as the pid is known
  bool signalled = false;   // we have sent it a signal
  std::string hang;         // why we judged it hung
  bool gone = false;
  int64_t resident_bytes = -1;  // at its last report
  std::string last_word;        // from its ExitReport
  std::string error;            // ReportedError of its ExitReport
  ActivityTracker activity;
  StartupTracker startup;
  absl::Time look_at;       // when to look at its process next while it starts
  ThreadTimesById threads;  // at the last look at a silent worker; else empty
  absl::Time threads_at;
  std::string starved;  // why its limit has grown, as a sentence; "" if it is not starved
  absl::Time starved_told = absl::InfinitePast();
};

class WorkerGroup {
 public:
  WorkerGroup(WorkerPlan plan, Spawner& spawner, RankLogs& logs);

  // Starts one worker for each local rank. `first` is local rank 0's place; `attempt` names the log folder.
  absl::Status Start(const WorkerPlace& first, int attempt);

  // Handles a Start that failed through nobody's mistake: the rank that could not be started counts as exited with 70
  // and this message; those before it are killed.
  void OnStartFailed(const absl::Status& failure);

  // These handle the spawner's events with the tag of a worker.
  void OnStarted(int local_rank, pid_t pid);
  void OnSpawnFailed(int local_rank, const absl::Status& failure);
  void OnExited(int local_rank, ExitStatus status);
  // Handles the death of the spawner and all its workers. `how` is for people; the first worker counts as the cause if
  // there is none yet.
  void OnSpawnerGone(const std::string& how);
  // Handles what the hub hears from a worker.
  void OnReport(int rank, const proto::WorkerMessage& message);

  // Records that all workers have been told to leave; those that end much later did not cause the end.
  void OnNews(absl::Time now) { told_at_ = std::min(told_at_, now); }

  // Signals every worker that is not gone; `only_unattached` skips those that listen to the hub.
  void Signal(int signal, bool only_unattached = false);

  // Looks at the progress pages and, for starting workers, now and then at their processes. Marks and kills a hung
  // worker, whose exit follows. Returns whether there was one.
  bool KillHung(absl::Time now, const HangLimits& limits);
  // Forgives silence until now, because the launcher itself was stopped.
  void ForgiveSilence(absl::Time now);

  bool AllGone() const;
  bool AllAttached() const;
  // Returns whether each worker has done its first step of this generation or has ended. Programs, which do not report
  // steps, count once they run.
  bool AllStarted() const;
  const std::vector<WorkerExit>& exits() const { return exits_; }  // in the order they were seen
  std::vector<ProgressSnapshot> Progress() const;
  // Returns whether a rank has begun to train; always true for programs, which do not report it.
  bool Trained() const;
  Worker* FindRank(int rank);
  const std::vector<Worker>& workers() const { return workers_; }  // by local rank
  const WorkerPlan& plan() const { return plan_; }

 private:
  absl::Status StartOne(const WorkerPlace& place, const std::string& log_path);
  std::vector<std::string> ArgumentsOf(const Environment& environment) const;
  void ObserveStartup(Worker& worker, const ProgressSnapshot& page, absl::Time now, absl::Duration interval);
  void ObserveWait(Worker& worker, absl::Time now, absl::Duration interval);
  void TellStarved(Worker& worker, absl::Time now, const HangLimits& limits);
  void SignalOne(Worker& worker, int signal);
  std::string KilledBy(const Worker& worker, ExitStatus status);
  std::string GpuOf(const Worker& worker);

  const WorkerPlan plan_;
  Spawner& spawner_;
  RankLogs& logs_;
  std::vector<Worker> workers_;  // by local rank
  std::vector<WorkerExit> exits_;
  int first_rank_ = 0;
  OomWatch oom_watch_{OomWatch::Places{}};
  GpuWatch gpu_watch_;
  absl::Time told_at_ = absl::InfiniteFuture();
};

}  // namespace composer
