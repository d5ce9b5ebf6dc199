// `determinism: elastic`: the same weights, bit for bit, on any number of ranks that the run has or changes to.
//
// The global batch of n samples is cut into V virtual shards; shard s has the samples [n s / V, n (s+1) / V). Each is
// computed by itself, whatever the rank: the same microbatches, the same seed (of run, step and shard), gradients from
// zero. The V results are summed by one binary tree (parallel/tree_sum.h). A rank of w has V / w consecutive shards;
// where that is a power of two they are a subtree, and the tree over ranks, which every Communicator's sum is, does the
// rest. So elastic runs send nothing more than others; what they cost is smaller microbatches.
// Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace composer {

// A run of rows of the rank's batch that goes through the model at once.
struct Microbatch {
  int64_t begin = 0, end = 0;
  int shard = 0;  // virtual shard of the global batch; 0 where there are none
  int64_t samples() const { return end - begin; }
  bool operator==(const Microbatch&) const = default;
};

// Rows [0, samples) in pieces of `size`, the last one smaller; size <= 0: one piece.
std::vector<Microbatch> PlanMicrobatches(int64_t samples, int64_t size);

// The same of each virtual shard that `rank` of `world` has, in order; shards without samples have none.
// world divides shards.
std::vector<Microbatch> PlanVirtualShards(int64_t global_samples, int rank, int world, int shards, int64_t size);

// For a run that starts on `world` ranks and says nothing: world times the power of two that makes it at least 8.
int DefaultVirtualShards(int world);

// Can `world` ranks run `shards` virtual shards? kInvalidArgument naming the worlds that can.
absl::Status ValidateVirtualShards(int shards, int world);

}  // namespace composer
