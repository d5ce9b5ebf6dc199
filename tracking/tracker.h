// Sends a run's records to a tracker: exactly those of metrics.jsonl, each once. metrics.jsonl is the spool: it
// survives kills and power cuts, holds each step once, and waits as long as a server is away. A cursor in
// {run folder}/trackers/NAME.json says how far it was sent. Pictures, tables and other files are those that files.jsonl
// names (trainer/loggers/run_files.h), sent before the records of their batch.
//
// After a resume the steps beyond the checkpoint are done again, and metrics.jsonl was cut. With rewound_steps: replace
// the sink starts over; with keep the steps that were sent stay as they are, and sending continues behind them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tracking/tracker_sink.h"
#include "views/read/line_follower.h"

namespace composer {

struct TrackerOptions {
  std::string name;  // "mlflow"; the name of the file
  TrackedRun run;
  std::map<std::string, std::string> settings;  // without secrets
  bool keeps_rewound_steps = false;
  int64_t launch = 0;  // RecordOrigin::launch
};

// Not thread-safe.
class Tracker {
 public:
  Tracker(TrackerOptions options, std::unique_ptr<TrackerSink> sink);

  // Reads what an earlier process noted. A run that begins anew (not `resumed`, another launch) is another run there.
  absl::Status Load(bool resumed);
  // Adds hyperparameters; those whose names are known keep their first value.
  void AddParameters(const std::vector<std::pair<std::string, std::string>>& parameters);
  // Sends the next records. Returns whether there may be more. After an error the next call tries the same again.
  absl::StatusOr<bool> SendSome();
  absl::Status Finish(absl::string_view state);

  const TrackerMemory& memory() const { return memory_; }
  // Returns {run folder}/trackers/NAME.json.
  std::string path() const;

 private:
  absl::Status Prepare();
  absl::Status Save();
  absl::Status SendFiles();

  TrackerOptions options_;
  const std::unique_ptr<TrackerSink> sink_;
  LineFollower follower_, files_;
  TrackerMemory memory_;
  bool begun_ = false, must_start_over_ = false;
  int64_t launch_ = 0;
  int64_t last_batch_ = 0;  // of what was sent
  int64_t skip_to_ = 0;     // records up to this batch were sent before a resume
};

// What `composer sync` finds in a run folder: the options as they were noted. kNotFound, kInvalidArgument.
absl::StatusOr<TrackerOptions> ReadTrackerOptions(const std::string& state_file);

}  // namespace composer
