// Which checkpoints `composer checkpoint prune` deletes. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_name.h"

namespace composer {

struct PruneDecision {
  CheckpointName name;
  bool deletes = false;
  std::string reason;  // of one that stays although it is not among the newest

  bool operator==(const PruneDecision&) const = default;
};

// Oldest first. The newest `keep` stay, damaged ones counted, and so does the newest valid one: a run must be able to go
// on after a pruning.
std::vector<PruneDecision> PlanPrune(std::vector<CheckpointName> committed, std::optional<CheckpointName> newest_valid,
                                     int keep);

}  // namespace composer
