// What a run did, written to the run folder's summary.json and as the last lines on the terminal. It is rewritten as a
// whole at the end of every generation, so that it is correct whenever it is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "launcher/supervise/run_history.h"

namespace composer {

struct GenerationSummary {
  int generation = 1;   // counted from 1 in each launch
  bool loaded = false;  // its workers have reported where they start
  int64_t start_step = 0;
  int64_t start_samples = 0;
  std::string start_checkpoint;  // "" if it starts from scratch
  int64_t end_step = 0;          // the furthest rank's last finished step
  int64_t end_samples = 0;
  int64_t recomputed_steps = 0;              // steps that an earlier generation had already done
  std::string cause;                         // why it ended; "" while it runs
  std::optional<double> first_step_seconds;  // from the previous failure (for the first, the launch) to its first step
  std::string ended;                         // "running", "done", "preempted", "failed"
  std::string decision;                      // what followed: "restart 1 of 3"; "" if that was obvious
  struct Exit {
    int rank = 0;
    std::string how;   // "exited with 69"
    std::string role;  // "first cause", "collateral: …", "done", "preempted"
  };
  std::vector<Exit> exits;  // of this node's workers, in the order they were seen
};

struct RunSummary {
  std::string run_name;
  std::string run_folder;  // not in the file
  // One of "running", "done", "preempted", "failed", "user_error", "budget_spent" and "killed".
  std::string exit_reason = "running";
  int exit_code = 0;
  int restarts = 0;  // of this launch
  int world_size = 0;
  int64_t started = 0;  // Unix seconds
  double wall_seconds = 0;
  std::string last_checkpoint;
  int64_t last_checkpoint_step = 0;       // of a save in this launch, not in the file; 0 if none
  std::map<std::string, double> metrics;  // of the last evaluation
  std::vector<GenerationSummary> generations;
  RunHistory history;  // of the earlier launches

  // These count the state that the run has or ended with, without steps that a restart threw away.
  int64_t steps() const;
  int64_t samples() const;
  int64_t launch() const { return history.totals.launches + 1; }
  LaunchTotals AllLaunches() const;  // including this one
};

// Returns one JSON object with keys exit_reason, exit_code, steps, samples, launch, started, restarts, wall_seconds,
// last_checkpoint, last_checkpoint_step, run_name, world_size, metrics, generations (the newest 200 of this launch,
// preceded by generations_left_out if there are more), all_launches (totals) and earlier_launches (the newest 100).
std::string ToJson(const RunSummary& summary);

// Writes `<run folder>/summary.json` atomically.
absl::Status WriteSummary(const RunSummary& summary);

// Returns a few lines for people. The cause of a failure has already been reported.
std::string DescribeRun(const RunSummary& summary);

}  // namespace composer
