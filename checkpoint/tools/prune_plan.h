// The prune plan decides which checkpoints `composer checkpoint prune` deletes. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "checkpoint/format/checkpoint_name.h"

namespace composer {

struct PruneDecision {
  CheckpointName name;
  bool deletes = false;
  std::string reason;  // why one stays although it is not among the newest

  bool operator==(const PruneDecision&) const = default;
};

// Returns the decisions, oldest first. The newest `keep` stay, including damaged ones, and so does the newest valid
// one: a run must be able to resume after a pruning.
std::vector<PruneDecision> PlanPrune(std::vector<CheckpointName> committed, std::optional<CheckpointName> newest_valid,
                                     int keep);

struct FolderUse {
  std::vector<absl::Time> saved;        // the times of its newest checkpoints, from their manifests; in any order
  std::vector<std::string> unfinished;  // UnfinishedAttempts (checkpoint/folder/cleanup.h)
};
// Returns why a run may be saving into the folder now; "" when none seems to. It may when an attempt is unfinished, or
// when the newest checkpoint is younger than twice the longest time between two of `saved`, at least kQuietAtLeast and
// at most kQuietAtMost. A time in the future (another clock) counts as young.
inline constexpr absl::Duration kQuietAtLeast = absl::Minutes(10), kQuietAtMost = absl::Hours(24);
std::string WhyInUse(FolderUse use, absl::Time now);

}  // namespace composer
