// Ensures that the files of records (metrics.jsonl, tables.jsonl) have each step once, however often a run was started.
// Both consist of JSON lines in the order of time, each beginning with {"time/epoch":E,"time/batch":B,.
//
// When the run is resumed from a checkpoint, the lines beyond its epoch and batch are cut off, because the run repeats
// these steps. So is a line that a power cut tore. A file without any record is left unchanged.
// When the run begins anew, lines of this same launch are cut off. Those of other launches belong to another life of
// the run and are kept in a file beside it: metrics-1.jsonl, with the first free number.
//
// Cutting is one ftruncate(): a reader, a kill or a power cut sees the file before or after it. None of Composer's
// loggers does this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/logger.h"

namespace composer {

// Identifies the start of the run that writes a record.
struct RecordOrigin {
  int64_t launch = 0;      // counted by the launcher (summary.json); 0 means not counted and leaves it out of the line
  int64_t generation = 1;  // of that launch
};

// Must be called before the first new line. Does nothing when `path` is missing or not a regular file.
absl::Status RewindRecords(const std::string& path, const RunStart& start, int64_t launch);

// Calls `take` with each whole line from the first record of `first_batch` or a later one on, up to the epoch and batch
// of `last`, in the order of time; lines of over 1 MiB are left out. Does nothing when `path` is missing.
absl::Status ReadRecords(const std::string& path, int64_t first_batch, const Timestamp& last,
                         const std::function<void(absl::string_view line)>& take);

}  // namespace composer
