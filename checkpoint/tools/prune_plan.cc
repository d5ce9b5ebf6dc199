// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/prune_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

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

std::string WhyInUse(FolderUse use, absl::Time now) {
  if (!use.unfinished.empty()) return absl::StrCat(use.unfinished[0], " is a save under way, or one that was cut off");
  if (use.saved.empty()) return "";
  std::sort(use.saved.begin(), use.saved.end());
  absl::Duration longest = absl::ZeroDuration();
  for (size_t i = 1; i < use.saved.size(); ++i) longest = std::max(longest, use.saved[i] - use.saved[i - 1]);
  const absl::Duration quiet = std::clamp(2 * longest, kQuietAtLeast, kQuietAtMost);
  const absl::Duration age = now - use.saved.back();
  if (age >= quiet) return "";
  return absl::StrCat("the newest checkpoint was saved ", absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))),
                      " ago, less than ", absl::FormatDuration(quiet));
}

}  // namespace composer
