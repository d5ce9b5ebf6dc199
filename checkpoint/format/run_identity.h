// The run identity says which run a run folder belongs to: a random id in `<run folder>/.run.json`, so that a run is
// recognised after a relaunch, a requeue or under another run_name, and a copy of the folder is a run of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// A RunIdentity is the content of the file: the id, and the folder that it was written for. A folder that was moved
// within its file system or is mounted elsewhere keeps its inode; one that was restored from a backup keeps its path; a
// copy keeps neither.
struct RunIdentity {
  std::string id;  // 16 hexadecimal digits
  std::string path;
  uint64_t inode = 0;
};
std::string SerializeRunIdentity(const RunIdentity& identity);
// The text is hostile input: returns kDataLoss on anything but the above.
absl::StatusOr<RunIdentity> ParseRunIdentity(absl::string_view text);
// Returns whether the folder at `path` with `inode` is the one that `recorded` was written for. Pure.
bool IsSameFolder(const RunIdentity& recorded, absl::string_view path, uint64_t inode);

// Returns the id of the run in this folder; "" if it has none: a new folder, a copy, or an unreadable file.
std::string ReadRunId(const std::string& run_folder);
// Makes a new id and stores it in the folder, which is created.
absl::StatusOr<std::string> MakeRunId(const std::string& run_folder);

// Identifies a start of a run. Ranks that one launcher restarts after a failure are a later generation of the same
// launch.
struct LaunchId {
  std::string id;  // random, of this rank's launcher; "": none
  uint64_t generation = 0;
};

}  // namespace composer
