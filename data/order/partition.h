// How canonical nodes' parts are interleaved into one sequence, as mosaicml-streaming 0.13 partitions samples.
//
// Canonical node c of C has the places [n*c/C, n*(c+1)/C) of the shuffled samples. The sequence takes one place of each
// node in turn. The package fills up parts that are one short, and then what ranks get, by repeating samples; global
// batch g of G samples is sequence[g*G, (g+1)*G) on any number of nodes until the first repeat.
// Source: streaming/base/partition/orig.py and relaxed.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace composer {

enum class PartitionAlgorithm { kOrig, kRelaxed };

// The machines that an order was made for. What the package does at the end of an epoch depends on them.
struct OrderWorld {
  int64_t physical_nodes = 1;
  int64_t ranks_per_node = 1;
  int64_t initial_physical_nodes = 0;  // of the run's start, if `physical_nodes` is another number now; 0: the same
};

// Stands in a sequence for no sample at all: a rank gets one fewer.
inline constexpr uint32_t kNoSample = 0xffffffff;

// Returns the places [0, n) in the order above, each once.
std::vector<uint32_t> InterleaveOnce(int64_t n, int64_t canonical_nodes);

struct PartitionKey {
  PartitionAlgorithm algorithm = PartitionAlgorithm::kRelaxed;
  int64_t canonical_nodes = 1;
  int64_t global_batch = 1;
  OrderWorld world;
};
// kInvalidArgument where the package refuses a number of nodes or ranks.
absl::Status CheckPartition(const PartitionKey& key);
// Returns how many global batches the package fills, repeats included.
int64_t FullBatches(int64_t n, const PartitionKey& key);
// Returns the package's sequence with its repeats: global batches one after the other, in each the ranks' parts one
// after the other. kNoSample fills up the last batch. kInvalidArgument where the package refuses. n > 0.
absl::StatusOr<std::vector<uint32_t>> InterleaveWithRepeats(int64_t n, const PartitionKey& key);

// Returns each canonical node's places, [nodes][places]: the repeats of the package's `orig` partition over as many
// nodes as canonical ones with `ranks_per_node` if `repeats`, else each place once.
std::vector<std::vector<uint32_t>> CanonicalParts(int64_t n, int64_t canonical_nodes, int64_t ranks_per_node,
                                                  bool repeats);

}  // namespace composer
