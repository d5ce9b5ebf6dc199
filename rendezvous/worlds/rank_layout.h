// Maps nodes and their slots to global ranks. Pure arithmetic; nodes may differ in slots.
//
//   base(r) = slots(0) + … + slots(r-1)       node rank r holds the ranks [base(r), base(r) + slots(r))
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace composer {

// Bounds that keep a world size within int: more slots than any machine has, and more nodes than any job.
inline constexpr int kMaxSlots = 1024;
inline constexpr int kMaxNodes = 1'000'000;
inline constexpr size_t kMaxWorldIdBytes = 256;

class RankLayout {
 public:
  // slots[r] is the number of workers of node rank r, in [1, kMaxSlots]; there are at most kMaxNodes nodes.
  explicit RankLayout(const std::vector<int>& slots);

  int world_size() const { return starts_.back(); }
  int num_nodes() const { return static_cast<int>(starts_.size()) - 1; }
  int base_rank(int node_rank) const { return starts_[node_rank]; }
  int slots(int node_rank) const { return starts_[node_rank + 1] - starts_[node_rank]; }

 private:
  std::vector<int> starts_;  // num_nodes + 1 values, the last is the world size
};

}  // namespace composer
