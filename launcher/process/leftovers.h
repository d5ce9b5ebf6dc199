// Clears what launchers left behind that were killed together with everything that cleans up after them. It runs when a
// later launcher starts on the same machine, and removes only what certainly has no owner: a temporary folder whose
// lock is free, an empty cgroup, and unfinished files in a run folder that we hold. Each must also have been untouched
// for a while, because a launcher that is just starting has not locked its folder yet.
//
//   <TMPDIR or /dev/shm>/composer-XXXXXX        owned by this user, with the file kOwnerFile, which its owner locks
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

// Marks a launcher's temporary folder as ours. The lock lasts as long as any process holds the returned descriptor
// (close-on-exec), which nobody closes.
absl::StatusOr<int> OwnTempFolder(const std::string& folder);

struct LeftoverPlaces {
  std::vector<std::string> temp_roots;
  std::string cgroup_root;  // "" if there is none
  std::string run_folder;   // "" if there is none or another launcher holds it
  absl::Duration untouched = absl::Minutes(1);
};

// Returns what was removed. Never fails: what cannot be removed stays.
std::vector<std::string> ClearLeftovers(const LeftoverPlaces& places, absl::Time now);

}  // namespace composer
