// Writes an offline run of Weights & Biases: {run folder}/wandb/offline-run-DATE_TIME-ID/run-ID.wandb, which
// `wandb sync` uploads and the package's own tools read. Each process writes the file anew from metrics.jsonl, so it
// has exactly its steps.
//
// Format, as wandb 0.31.0 reads it: ":W&B", u16 0xBEE1, u8 0, all little-endian; then LevelDB log blocks of 32 KiB (the
// 7 bytes count in the first) of chunks {u32 CRC-32 of type and data, u16 length, u8 type: 1 whole, 2 first, 3 middle,
// 4 last}; a rest of less than 7 bytes is zeros. A record is a protocol buffer wandb_internal.Record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/line_file.h"
#include "tracking/tracker_sink.h"
#include "tracking/wandb_files.h"

namespace composer {

// Cuts records into the chunks of a log. Pure.
class WandbLog {
 public:
  // Returns the file's header.
  std::string Begin();
  // Returns the bytes that append the record.
  std::string Append(absl::string_view record);

 private:
  size_t in_block_ = 0;  // bytes of the current block
};

// The settings project, entity, group, name and tags (with commas between them) have Composer's meaning.
class WandbSink final : public TrackerSink {
 public:
  absl::Status Begin(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) override;
  absl::Status SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) override;
  absl::Status StartOver(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Finish(absl::string_view state, TrackerMemory& memory) override;
  bool AlwaysStartsOver() const override { return true; }

 private:
  absl::Status WriteRecord(const std::string& record);
  absl::Status WriteConfig(const TrackerMemory& memory);
  // W&B has one row for each step: records of one batch are joined, with the pictures and tables up to it.
  absl::Status WriteRow();
  // Copies a file into files/, where `wandb sync` finds it, and names it in the log. Returns its place.
  absl::StatusOr<std::string> Keep(const std::string& content, const std::string& path);
  absl::Status KeepCheckpointFile(const TrackedRun& run, const TrackedFile& file, const std::string& content);
  // The files of one checkpoint are an artifact of their own, in the place where they are.
  absl::Status WriteArtifact();

  std::optional<LineFile> file_;
  WandbLog log_;
  int64_t number_ = 0;  // of the last record
  double started_ = 0;
  size_t parameters_written_ = 0;
  std::optional<TrackedRecord> row_;  // not written yet
  struct Media {
    MetricRow row;
    std::string name, json;
  };
  std::deque<Media> media_;  // not written yet, in the order of time
  std::string id_, project_, checkpoint_;
  std::vector<WandbArtifactFile> checkpoint_files_;  // of checkpoint_, not written yet
  std::map<std::string, double> summary_;
};

}  // namespace composer
