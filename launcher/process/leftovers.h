// What launchers leave that were killed together with everything that cleans up after them, cleared at a later start on the
// same machine. Only what certainly has no owner goes: a temporary folder whose owner's lock is free, an empty cgroup, the
// unfinished files of a run folder that we hold; and each only when it has not been touched for a while, since a launcher
// that is just starting has not locked its folder yet.
//
//   <TMPDIR or /dev/shm>/composer-XXXXXX        of this user; with the file kOwnerFile in it, which its owner holds locked
//   <our cgroup>/composer-XXXXXX                see job_cgroup.h
//   <run folder>/NAME.tmp-PID                   see AtomicWriteFile
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

inline constexpr char kOwnerFile[] = ".owner";

// Marks a launcher's temporary folder as ours. The lock lasts as long as a process holds the returned descriptor
// (close-on-exec), which nobody closes.
absl::StatusOr<int> OwnTempFolder(const std::string& folder);

struct LeftoverPlaces {
  std::vector<std::string> temp_roots;
  std::string cgroup_root;  // "": none
  std::string run_folder;   // "": none, or another launcher's
  absl::Duration untouched = absl::Minutes(1);
};

// Returns what was removed. Never fails: what cannot be removed stays.
std::vector<std::string> ClearLeftovers(const LeftoverPlaces& places, absl::Time now);

}  // namespace composer
