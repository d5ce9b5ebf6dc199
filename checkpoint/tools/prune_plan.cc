// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/prune_plan.h"

#include <algorithm>

namespace composer {

std::vector<PruneDecision> PlanPrune(std::vector<CheckpointName> committed, std::optional<CheckpointName> newest_valid,
                                     int keep) {
  std::sort(committed.begin(), committed.end());
  const size_t kept = std::min(committed.size(), static_cast<size_t>(std::max(keep, 1)));
  std::vector<PruneDecision> decisions;
  for (size_t i = 0; i < committed.size(); ++i) {
    PruneDecision decision{.name = committed[i], .deletes = i < committed.size() - kept, .reason = ""};
    if (decision.deletes && newest_valid == committed[i]) {
      decision.deletes = false;
      decision.reason = "the newest valid one";
    }
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace composer
