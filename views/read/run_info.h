// What a run folder says about its run, at a glance: summary.json, and the end of metrics.jsonl. Files are hostile
// input: sizes are bounded, and what cannot be understood counts as absent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace composer {

struct RunGeneration {
  int64_t generation = 0, start_step = 0, end_step = 0, recomputed_steps = 0;
  std::string cause, ended, decision, first_cause;  // first_cause: "rank 1 was killed by SIGKILL (9)"
};

struct RunInfo {
  std::string name;  // of summary.json, else of the folder
  std::string folder;
  // exit_reason of summary.json (launcher/supervise/run_summary.h); "lost": it says "running", but no launcher holds
  // the folder; "unknown": there is no summary.
  std::string state = "unknown";
  int64_t steps = 0, epoch = 0, samples = 0, restarts = 0, launches = 0, world_size = 0;
  int64_t recomputed_steps = 0;  // of all launches
  int64_t started = 0;           // Unix seconds; 0: unknown
  double wall_seconds = 0;       // of all launches
  double last_record = 0;        // Unix seconds; 0: there is none
  std::string last_checkpoint;
  std::map<std::string, double> metrics;  // the newest values near the file's end, and those of the last evaluation
  std::vector<RunGeneration> generations;
};

// Names in `wanted` are looked for further back, up to 16 MiB before the end of the file. kNotFound when the folder has
// neither file.
absl::StatusOr<RunInfo> ReadRun(const std::string& folder, const std::vector<std::string>& wanted);

// Returns the run folders at `root`: itself, or those up to three folders below it, sorted; at most 100,000.
std::vector<std::string> FindRuns(const std::string& root);

// Reads them with one thread a processor, at most 8; leaves out what is not a run. The order is kept.
std::vector<RunInfo> ReadRuns(const std::vector<std::string>& folders, const std::vector<std::string>& wanted);

}  // namespace composer
