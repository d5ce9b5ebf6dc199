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
// A node's part is computed piece by piece from any place on: a span (a part of a shard) at a time for py1s and py2s, a
// block for py1br, spans within a block's reach for py1e. Only naive needs all of it at once (4 bytes a sample):
// numpy's permutation draws its first place last.
//
// Source: streaming/base/shuffle/*.py of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
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

// A node's places in order. Used by one thread at a time.
class NodeSamples {
 public:
  virtual ~NodeSamples() = default;
  // Appends the samples of the next places, at least one; nothing at the end of the node's part.
  virtual void Next(std::vector<uint32_t>& ids) = 0;
};

// The shuffle of one epoch. Thread-safe; what it opens must not outlive it.
class EpochShuffle {
 public:
  virtual ~EpochShuffle() = default;
  // Returns a permutation of [0, n), where n < 2^32 - 1 is the sum of the units: the sizes of the shards, or of the
  // parts of shards that are drawn. Takes about 2 ns a sample. kInvalidArgument where the package fails too: a block so
  // small that it has no size to draw (py1br, py1e).
  static absl::StatusOr<std::unique_ptr<const EpochShuffle>> Create(const ShuffleKey& key,
                                                                    absl::Span<const int64_t> units);
  // Returns node's places from `place` on, 0 <= place <= the size of its part: n*(node+1)/nodes - n*node/nodes samples.
  virtual std::unique_ptr<NodeSamples> Open(int64_t node, int64_t place) const = 0;
};

// Returns all nodes' parts, one after the other. 4 bytes a sample; about 20 ns a sample.
absl::StatusOr<std::vector<uint32_t>> ShuffledIds(const ShuffleKey& key, absl::Span<const int64_t> units);

}  // namespace composer
