// Which run a run folder belongs to: a random id in `<run folder>/.run.json`, so that the same run is known again after a
// relaunch, a requeue or another run_name, and a copy of the folder is a run of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// What the file says: the id, and the folder it was written for. A folder that was moved within its file system keeps
// its inode, one that is mounted elsewhere too; one that was restored from a backup keeps its path; a copy keeps neither.
struct RunIdentity {
  std::string id;  // 16 hexadecimal digits
  std::string path;
  uint64_t inode = 0;
};
std::string SerializeRunIdentity(const RunIdentity& identity);
// Hostile input: kDataLoss on anything else than the above.
absl::StatusOr<RunIdentity> ParseRunIdentity(absl::string_view text);
// Pure: is the folder at `path` with `inode` the one that `recorded` was written for?
bool IsSameFolder(const RunIdentity& recorded, absl::string_view path, uint64_t inode);

// The id of the run in this folder; "" when it has none: a new folder, a copy, or a file that is not readable.
std::string ReadRunId(const std::string& run_folder);
// Makes a new id and keeps it in the folder, which is created.
absl::StatusOr<std::string> MakeRunId(const std::string& run_folder);

// 16 random hexadecimal digits.
std::string RandomId();

// Which start of a run this is. Ranks that one launcher starts again after a failure are a later generation of one launch.
struct LaunchId {
  std::string id;  // random, of this rank's launcher; "": there is none
  uint64_t generation = 0;
};

}  // namespace composer
