// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/rank_layout.h"

#include <algorithm>

#include "base/log.h"

namespace composer {

RankLayout::RankLayout(const std::vector<int>& slots) {
  CHECK_LE(slots.size(), static_cast<size_t>(kMaxNodes));
  starts_.reserve(slots.size() + 1);
  starts_.push_back(0);
  for (const int count : slots) {
    CHECK(count >= 1 && count <= kMaxSlots) << "slots " << count;
    starts_.push_back(starts_.back() + count);
  }
}

int RankLayout::NodeOf(int global_rank) const {
  CHECK(global_rank >= 0 && global_rank < world_size()) << "rank " << global_rank << " of " << world_size();
  return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), global_rank) - starts_.begin()) - 1;
}

}  // namespace composer
