// Finds the worker that is stuck in its start-up. Pure; the worker group feeds it the progress pages and /proc.
//
//   spawn --process--> attach --first heartbeat--> group --ranks connected--> build --model, data--> load
//     --checkpoint--> first step
//
// A worker is stuck when it has stayed in a phase for that phase's limit without progress. Progress is computing (at
// least 5 % of a CPU, in the process or one that it has started) or moving bytes (16 KiB/s), so that a large checkpoint
// or a long compilation is never killed while it advances; heartbeats alone are not progress. Before the first
// heartbeat nothing takes long, so there the worker has ten times the limit in all, with or without progress. A stopped
// process (SIGSTOP) is stuck after the time that a heartbeat may be late.
//
// Only the workers in the earliest phase are judged, because the others wait for them. A starved one among them
// (hang_detector.h) is granted the time that it waited for a processor, and so are the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "contract/startup_limits.h"
#include "launcher/process/process_tree.h"
#include "launcher/workers/hang_detector.h"

namespace composer {

enum class StartupPhase { kSpawn, kAttach, kGroup, kBuild, kLoad, kFirstStep, kOver };

struct StartupActivity {
  int rank = 0;
  StartupPhase phase = StartupPhase::kSpawn;
  absl::Time since;                                   // when it entered the phase
  absl::Time last_progress;                           // at or after `since`
  absl::Duration waited;                              // for a processor, since last_progress
  absl::Time stopped_since = absl::InfiniteFuture();  // InfiniteFuture if it is not stopped
};

// `stopped` is how long a process may be stopped.
std::optional<Hang> FindStuckStart(const std::vector<StartupActivity>& workers, absl::Time now,
                                   const StartupLimits& limits, absl::Duration stopped);

// Returns a sentence about a worker that is starved (hang_detector.h), else "".
std::string DescribeStarved(const StartupActivity& worker, absl::Time now, const StartupLimits& limits);

// Follows one worker through its start-up.
class StartupTracker {
 public:
  StartupTracker(int rank, absl::Time now) { activity_ = {.rank = rank, .since = now, .last_progress = now}; }

  // `work` is absent when nobody has looked.
  void Observe(StartupPhase phase, const std::optional<ProcessWork>& work, absl::Time now);
  // Adds time for which it waited for a processor just before `now`.
  void AddWait(absl::Duration waited, absl::Time now);
  // Forgives the time until now, because the launcher itself was stopped.
  void Restart(absl::Time now);

  const StartupActivity& activity() const { return activity_; }

 private:
  StartupActivity activity_;
  ProcessWork mark_;  // at last_progress
};

}  // namespace composer
