// Writes an offline experiment of Comet: {run folder}/comet/KEY.zip, which `comet upload` sends and the package's own
// tools read. The messages grow in comet/KEY.jsonl, the archive is made of them when the run ends, and `composer sync`
// makes that of a run that was killed. Each process writes the messages anew from metrics.jsonl, so they have exactly
// its steps.
//
// Format, as comet_ml 3.58.8 reads and validates it: experiment.json says what the run is, messages.json has a JSON
// object in each line: {"type": "metric_msg", "payload": {…}}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/line_file.h"
#include "nlohmann/json_fwd.hpp"
#include "tracking/tracker_sink.h"

namespace composer {

// The settings workspace, project_name, name and tags (with commas between them) have Composer's meaning.
class CometSink final : public TrackerSink {
 public:
  absl::Status Begin(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) override;
  absl::Status SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) override;
  absl::Status StartOver(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Finish(absl::string_view state, TrackerMemory& memory) override;
  bool AlwaysStartsOver() const override { return true; }

 private:
  absl::Status Write(const char* type, nlohmann::json payload);
  absl::Status WriteOther(const std::string& key, const std::string& value);
  absl::Status WriteParameters(const TrackerMemory& memory);

  std::optional<LineFile> messages_;
  int64_t number_ = 0;  // of the last message
  int64_t newest_ = 0;  // milliseconds: the time of the newest record
  size_t parameters_written_ = 0;
  TrackedRun run_;
  std::vector<std::pair<std::string, std::string>> files_;  // a name in the archive, a path
};

}  // namespace composer
