// Ensures that the event files of a run have each record of metrics.jsonl once, however often the run was started, as
// record_file.h does for metrics.jsonl itself. A reader sees the files in the order of their names.
//
// When the run is resumed, events beyond the checkpoint's epoch and batch, and what a power cut tore, are cut off. What
// a kill took before it was written is missing then; EventsEnd says from where on. When the run begins anew, the files
// stay and the next one tells readers to drop them (RestartEvent of step 0).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace composer {

// Returns the names of the event files of a folder, the oldest first; none when there is no folder.
std::vector<std::string> EventFiles(const std::string& folder);

// Returns the name of the next event file, events.out.tfevents.SECONDS.HOST.PID, so that it sorts behind the others.
std::string NextEventFile(const std::string& folder, int64_t unix_seconds);

// The last records of the files: so many of this epoch and batch. batch is -1 when there are none; epoch is -1 when the
// file does not say it, and then the batch has all of its records.
struct EventsEnd {
  int64_t epoch = -1, batch = -1, records = 0;
};

// Cuts off everything beyond `last`, and returns what is left.
absl::StatusOr<EventsEnd> RewindEvents(const std::string& folder, const Timestamp& last);

}  // namespace composer
