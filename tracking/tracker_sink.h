// A TrackerSink is one experiment tracker: what sends or writes a run's records there. It is told the records of
// metrics.jsonl in order (tracker.h) and keeps no queue of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tracking/tracked_record.h"

namespace composer {

// A picture (PNG), a table (JSON, TableJson's) or another file that the run has made.
struct TrackedFile {
  enum class Kind { kImage, kTable, kFile, kCheckpoint };
  Kind kind = Kind::kFile;
  MetricRow row;
  std::string name;  // "Images/Train"; of a checkpoint "ep1-ba50"
  std::string path;  // relative to the run folder
};

// What outlives the process: kept in the run folder as JSON. It must not hold secrets.
struct TrackerMemory {
  std::map<std::string, std::string> settings;                  // of the job's file
  std::vector<std::pair<std::string, std::string>> parameters;  // hyperparameters, each name once
  std::map<std::string, std::string> notes;                     // the sink's own: ids, what was sent
};

// Returns a setting, or `fallback` when it is missing or empty.
inline std::string SettingOr(const std::map<std::string, std::string>& settings, const std::string& key,
                             const std::string& fallback) {
  const auto found = settings.find(key);
  return found != settings.end() && !found->second.empty() ? found->second : fallback;
}

struct TrackedRun {
  std::string name, folder;
  double started = 0;  // Unix seconds
  // Names one start of the run's ranks: "LAUNCH.GENERATION". `composer sync` has that of the last start, because it is
  // none itself.
  std::string start = "";
};

// Called by one thread at a time. Every call may be repeated after it failed, and Send after it succeeded, if the
// process died before that was noted: it must not double anything.
class TrackerSink {
 public:
  virtual ~TrackerSink() = default;
  // Makes the run known, or finds it again by the notes. Called before the first Send of each process.
  virtual absl::Status Begin(const TrackedRun& run, TrackerMemory& memory) = 0;
  virtual absl::Status Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) = 0;
  // Files come before the records of their batch. One that is no longer there is left out.
  virtual absl::Status SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) {
    return absl::OkStatus();
  }
  // Some of what was sent is no longer part of the run: everything will be sent again from the first record. Removes
  // it, so that no step appears twice.
  virtual absl::Status StartOver(const TrackedRun& run, TrackerMemory& memory) = 0;
  // `state` is "done", "preempted", "failed" or another exit_reason (launcher/supervise/run_summary.h).
  virtual absl::Status Finish(absl::string_view state, TrackerMemory& memory) = 0;
  // Whether each process writes everything anew, as for a file that takes a moment.
  virtual bool AlwaysStartsOver() const { return false; }
};

}  // namespace composer
