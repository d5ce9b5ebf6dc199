// How the files of records (metrics.jsonl, tables.jsonl) keep each step once, however often a run was started. Both are
// lines of JSON in the order of time, each beginning with {"time/epoch":E,"time/batch":B,.
//
//   resumed from a checkpoint   the lines beyond its epoch and batch are cut off: the run does these steps again. A line
//                               that a power cut tore goes as well. A file that has no record stays as it is.
//   begun anew                  lines of this very launch are cut off; those of other launches are another life of the run
//                               and stay, in a file beside it: metrics-1.jsonl, the first number that is free
//
// Cutting is one ftruncate(): a reader, a kill or a power cut sees the file before or after it. Source of the idea: none
// of Composer's loggers does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "trainer/core/logger.h"

namespace composer {

// Which start of the run writes a record.
struct RecordOrigin {
  int64_t launch = 0;      // counted by the launcher (summary.json); 0: nobody counts, and the line does not say
  int64_t generation = 1;  // of that launch
};

// Before the first new line. When `path` is missing or not a regular file, nothing is done.
absl::Status RewindRecords(const std::string& path, const RunStart& start, int64_t launch);

}  // namespace composer
