// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/rank_layout.h"

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

}  // namespace composer
