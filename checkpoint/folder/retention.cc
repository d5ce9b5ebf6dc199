// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/retention.h"

#include <algorithm>

namespace composer {

std::vector<CheckpointName> CheckpointsToDelete(std::vector<CheckpointName> committed, CheckpointName just_saved,
                                                int keep) {
  if (keep < 0) return {};
  std::erase_if(committed, [&](const CheckpointName& name) { return name >= just_saved; });
  std::sort(committed.begin(), committed.end());
  const size_t older_to_keep = static_cast<size_t>(std::max(keep, 1) - 1);
  committed.resize(committed.size() - std::min(committed.size(), older_to_keep));
  return committed;
}

}  // namespace composer
