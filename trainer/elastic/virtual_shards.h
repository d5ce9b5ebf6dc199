// This implements `determinism: elastic`: the same weights, bit for bit, on any number of ranks that the run has or
// changes to, with any sharding strategy.
//
// What a step sums over its global batch of n samples is one binary tree (collectives/tree_sum.h) over L leaves; leaf l
// has the samples [n l / L, n (l+1) / L). Each leaf is computed by itself, on whatever rank: one microbatch in memory
// of its own, the random numbers of (run, step, leaf), gradients from zero. L = V K: V virtual shards, which the run
// keeps for life, in K parts each, the smallest power of two that leaves no part with more than
// device_train_microbatch_size samples.
//
// The rank that computes a leaf follows from the order in which its strategy sums: S ranks share the parameters, R
// groups of them are replicas (NO_SHARD: S = 1, R all ranks). Rank (r, s) has in pass p, of P = L / (R S),
//
//   leaf(r, s, p) = r (P S) + p S + s
//
//   over s: the reduce-scatter of a pass: S neighbouring leaves, a subtree when S is a power of two
//   over p: the sum of the passes, in the order of the tree, on what the rank holds: the next levels
//   over r: the all-reduce over replicas: the top of it when P S is a power of two, or R = 1
//
// since every Communicator's sum is the tree over its ranks. Elastic runs therefore send no more than others do. The
// functions are pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/sample_order.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

// A Microbatch is a run of rows of the rank's batch that goes through the model at once.
struct Microbatch {
  int64_t begin = 0, end = 0;
  int64_t leaf = 0;  // of the global batch's tree; 0 if there is none
  int64_t samples() const { return end - begin; }
  bool operator==(const Microbatch&) const = default;
};

// Returns rows [0, samples) in pieces of `size`, the last one smaller; size <= 0 gives one piece.
std::vector<Microbatch> PlanMicrobatches(int64_t samples, int64_t size);

// A LeafPlace is the place of a rank in the mesh of its strategy.
struct LeafPlace {
  MeshDegrees degrees;  // S, R
  int shard = 0;        // s
  int replicate = 0;    // r
};
struct ElasticOptions {
  int virtual_shards = 0;  // V; 0: not elastic
  LeafPlace place;
};

// Returns L. microbatch <= 0 means no limit.
int64_t NumLeaves(int64_t global_samples, int virtual_shards, int64_t microbatch);
// Returns P, which is also the number of each rank's microbatches, including those without samples.
int64_t NumPasses(int64_t leaves, const MeshDegrees& degrees);
int64_t LeafOf(const LeafPlace& place, int64_t leaves, int64_t pass);
// Returns the rank that computes a leaf: r S + s.
int RankOfLeaf(int64_t leaf, int64_t leaves, const MeshDegrees& degrees);
// Returns the first leaf that has samples. Requires global_samples >= 1.
int64_t FirstLeafWithSamples(int64_t global_samples, int64_t leaves);

// Returns the rank's samples in the global batch, in the order of its passes; none is empty, neighbours are joined.
std::vector<SampleRange> SamplesOf(const LeafPlace& place, int64_t leaves, int64_t global_samples);
// Returns its microbatches, one per pass, as consecutive rows of those samples; some may be empty.
std::vector<Microbatch> PlanLeaves(const LeafPlace& place, int64_t leaves, int64_t global_samples);

// Returns the default for a run that starts on `world` ranks: world times the power of two that makes it at least 8.
int DefaultVirtualShards(int world);

// Checks that these ranks can run this many virtual shards. Returns kInvalidArgument naming the numbers that can.
absl::Status ValidateVirtualShards(int shards, const MeshDegrees& degrees);

}  // namespace composer
