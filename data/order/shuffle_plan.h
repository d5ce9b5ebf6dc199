// What an epoch's shuffle is made of, for each canonical node: its spans of samples in their order, and the random
// generator as it is before some of them, so that samples can be shuffled from there on.
//
// How many numbers a shuffle draws depends on what is drawn; so the plan passes over all draws of the epoch once
// (draw_skipper.h), at about 2 ns a sample. 100 bytes for every 2^16 samples, and 16 for each span.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "data/order/numpy_generator.h"
#include "data/order/shuffle.h"

namespace composer {

// Samples [begin, end) of one unit.
struct UnitSpan {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// The generator before a span.
struct SpanStop {
  size_t span = 0;
  int64_t at = 0;  // samples of the spans before
  NumpyGenerator random;
};

struct NodePlan {
  std::vector<UnitSpan> spans;
  int64_t size = 0;             // samples
  std::vector<SpanStop> stops;  // of the shuffles within spans (py1br: one, before the sizes of blocks)
  std::vector<SpanStop> moves;  // py1e: of what follows them
  int64_t stagger = 0;          // py1br
};

struct ShufflePlan {
  ShuffleKey key;
  std::vector<NodePlan> nodes;
  // py2s: nodes' spans are of these samples, which were shuffled for the whole run.
  NodePlan shards;
};

// `key` is for py1s, py1br, py1e or py2s.
ShufflePlan PlanShuffle(const ShuffleKey& key, absl::Span<const int64_t> units);

// Returns the number of samples, about, by which py1e moves one at most.
inline int64_t ReachOf(int64_t block_size) { return block_size * 5 / 8 + 2; }

// The size that py1br and py1e draw for a block.
inline int64_t DrawBlock(int64_t block_size, NumpyGenerator& random) {
  return random.Integers(block_size * 3 / 4, block_size * 5 / 4);
}

// Places [begin, end) of a node's part, which py1br shuffles; each block begins at or before the end of the one before.
struct ShuffledBlock {
  int64_t begin = 0;
  int64_t end = 0;
};
// Returns the blocks of random sizes that begin `stagger` early, as the package has it: the first ones overlap. What is
// behind the last one stays as it is.
std::vector<ShuffledBlock> DrawBlocks(int64_t size, int64_t block_size, int64_t stagger, NumpyGenerator& random);

}  // namespace composer
