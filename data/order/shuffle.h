// The shuffles of mosaicml-streaming 0.13: which sample stands at each place of an epoch before the canonical nodes'
// parts are interleaved (partition.h). Bit for bit those of that package.
//
//   naive   a permutation of all samples.
//   py1s    shards are shuffled once for the run and divided among the canonical nodes; in each epoch the parts of
//           shards are shuffled within their node, and the samples within their part.
//   py1br   as py1s, but the samples are shuffled within blocks of about block_size, staggered between nodes.
//   py1e    as py1s, then each sample moves by a uniform random distance of up to half of about block_size.
//   py2s    as py1s, but samples are shuffled within their shard also once for the run, before shards are divided.
//
// Source: streaming/base/shuffle/*.py of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace composer {

enum class ShuffleAlgorithm { kNone, kNaive, kPy1s, kPy1br, kPy1e, kPy2s };

struct ShuffleKey {
  ShuffleAlgorithm algorithm = ShuffleAlgorithm::kPy1e;
  int64_t canonical_nodes = 1;
  uint64_t seed = 9176;
  int64_t epoch = 0;
  int64_t block_size = 1 << 18;
};

// Returns a permutation of [0, n), where n < 2^32 - 1 is the sum of the units: the sizes of the shards, or of the parts
// of shards that are drawn. kInvalidArgument where the package fails too: a block so small that it has no size to
// draw (py1br, py1e). 4 bytes a sample; about 20 ns a sample.
absl::StatusOr<std::vector<uint32_t>> ShuffledIds(const ShuffleKey& key, absl::Span<const int64_t> units);

}  // namespace composer
