// `determinism: elastic`: the same weights, bit for bit, on any number of ranks that the run has or changes to, with any
// sharding strategy.
//
// What a step sums over its global batch of n samples is one binary tree (parallel/tree_sum.h) over L leaves; leaf l has
// the samples [n l / L, n (l+1) / L). Each is computed by itself, whatever the rank: one microbatch in memory of its own,
// the random numbers of (run, step, leaf), gradients from zero. L = V K: V virtual shards, which the run keeps for life, in
// K parts each, the smallest power of two that leaves no part with more than device_train_microbatch_size samples.
//
// Which rank computes a leaf follows the order in which its strategy sums: S ranks share the parameters, R groups of
// them are replicas (NO_SHARD: S = 1, R all ranks). Rank (r, s) has in pass p, of P = L / (R S),
//
//   leaf(r, s, p) = r (P S) + p S + s
//
//   over s: the reduce-scatter of a pass: S neighbouring leaves, a subtree when S is a power of two
//   over p: the sum of the passes, in the order of the tree, on what the rank holds: the next levels
//   over r: the all-reduce over replicas: the top of it when P S is a power of two, or R = 1
//
// since every Communicator's sum is the tree over its ranks. So elastic runs send nothing more than others do.
// Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trainer/data/sample_order.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

// A run of rows of the rank's batch that goes through the model at once.
struct Microbatch {
  int64_t begin = 0, end = 0;
  int64_t leaf = 0;  // of the global batch's tree; 0 where there is none
  int64_t samples() const { return end - begin; }
  bool operator==(const Microbatch&) const = default;
};

// Rows [0, samples) in pieces of `size`, the last one smaller; size <= 0: one piece.
std::vector<Microbatch> PlanMicrobatches(int64_t samples, int64_t size);

// A rank in the mesh of its strategy.
struct LeafPlace {
  MeshDegrees degrees;  // S, R
  int shard = 0;        // s
  int replicate = 0;    // r
};
struct ElasticOptions {
  int virtual_shards = 0;  // V; 0: not elastic
  LeafPlace place;
};

// L. microbatch <= 0: no limit.
int64_t NumLeaves(int64_t global_samples, int virtual_shards, int64_t microbatch);
// P; also the microbatches of each rank, those without samples counted.
int64_t NumPasses(int64_t leaves, const MeshDegrees& degrees);
int64_t LeafOf(const LeafPlace& place, int64_t leaves, int64_t pass);
// The place that computes a leaf, as a rank: r S + s.
int RankOfLeaf(int64_t leaf, int64_t leaves, const MeshDegrees& degrees);
// The first leaf that has samples; global_samples >= 1.
int64_t FirstLeafWithSamples(int64_t global_samples, int64_t leaves);

// The rank's samples in the global batch, in the order of its passes; none is empty, neighbours are joined.
std::vector<SampleRange> SamplesOf(const LeafPlace& place, int64_t leaves, int64_t global_samples);
// Its microbatches, one a pass, in rows of those samples one after the other; some may be empty.
std::vector<Microbatch> PlanLeaves(const LeafPlace& place, int64_t leaves, int64_t global_samples);

// For a run that starts on `world` ranks and says nothing: world times the power of two that makes it at least 8.
int DefaultVirtualShards(int world);

// Can these ranks run so many virtual shards? kInvalidArgument naming those that can.
absl::Status ValidateVirtualShards(int shards, const MeshDegrees& degrees);

}  // namespace composer
