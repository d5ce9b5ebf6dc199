// SPDX-License-Identifier: Apache-2.0
#include "data/order/shuffle_plan.h"

#include <algorithm>
#include <utility>

#include "data/order/draw_skipper.h"

namespace composer {
namespace {

constexpr int64_t kStopEvery = 1 << 16;  // samples

std::vector<UnitSpan> SpansOf(absl::Span<const int64_t> units) {
  std::vector<UnitSpan> spans;
  int64_t begin = 0;
  for (const int64_t size : units) {
    spans.push_back({begin, begin + size});
    begin += size;
  }
  return spans;
}

int64_t SamplesOf(const std::vector<UnitSpan>& spans) {
  int64_t samples = 0;
  for (const UnitSpan& span : spans) samples += span.size();
  return samples;
}

// Gives each node an equal part of the samples, in order; a span that crosses the end of a part is split there.
std::vector<NodePlan> Divide(std::vector<UnitSpan> spans, int64_t nodes) {
  const int64_t num_samples = SamplesOf(spans);
  std::vector<NodePlan> parts(static_cast<size_t>(nodes));
  size_t next = 0;
  int64_t so_far = 0;
  for (int64_t node = 0; node < nodes; ++node) {
    std::vector<UnitSpan>& part = parts[static_cast<size_t>(node)].spans;
    const auto part_end = static_cast<int64_t>(static_cast<__int128>(num_samples) * (node + 1) / nodes);
    for (; next < spans.size(); ++next) {
      UnitSpan& span = spans[next];
      if (part_end < so_far + span.size()) {
        if (so_far < part_end) {
          const int64_t split = span.begin + part_end - so_far;
          part.push_back({span.begin, split});
          span.begin = split;
          so_far = part_end;
        }
        break;
      }
      part.push_back(span);
      so_far += span.size();
    }
    parts[static_cast<size_t>(node)].size = SamplesOf(part);
  }
  return parts;
}

// Calls pass(span) for each span, and keeps what stop() returns before some of them.
template <typename Stop, typename Pass>
std::vector<SpanStop> PassOver(const std::vector<UnitSpan>& spans, const Stop& stop, const Pass& pass) {
  std::vector<SpanStop> stops;
  int64_t at = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (stops.empty() || at - stops.back().at >= kStopEvery) stops.push_back({i, at, stop()});
    pass(spans[i]);
    at += spans[i].size();
  }
  return stops;
}

void PassOverShuffles(NodePlan& node, NumpyGenerator& random) {
  DrawSkipper skipper(random);
  node.stops = PassOver(
      node.spans, [&] { return skipper.generator(); }, [&](const UnitSpan& span) { skipper.Shuffle(span.size()); });
  random = skipper.generator();
}

void PassOverMoves(int64_t block_size, NodePlan& node, NumpyGenerator& random) {
  node.moves = PassOver(
      node.spans, [&] { return random; },
      [&](const UnitSpan& span) {
        DrawBlock(block_size, random);
        random.Skip64(static_cast<uint64_t>(span.size()));
      });
}

// Keeps the generator before the sizes of the node's blocks.
void PassOverBlocks(int64_t block_size, NodePlan& node, NumpyGenerator& random) {
  node.stops = {{0, 0, random}};
  std::vector<ShuffledBlock> blocks = DrawBlocks(node.size, block_size, node.stagger, random);
  DrawSkipper skipper(random);
  for (const ShuffledBlock& block : blocks) skipper.Shuffle(block.end - block.begin);
  random = skipper.generator();
}

}  // namespace

std::vector<ShuffledBlock> DrawBlocks(int64_t size, int64_t block_size, int64_t stagger, NumpyGenerator& random) {
  std::vector<ShuffledBlock> blocks;
  for (int64_t end = 0; end < size;) {
    const int64_t drawn = DrawBlock(block_size, random);
    const ShuffledBlock block = {std::max<int64_t>(end - stagger, 0), std::min(end + drawn - stagger, size)};
    blocks.push_back(block);
    end += block.end - block.begin;
  }
  return blocks;
}

ShufflePlan PlanShuffle(const ShuffleKey& key, absl::Span<const int64_t> units) {
  ShufflePlan plan{.key = key};
  NumpyGenerator run(key.seed);
  std::vector<UnitSpan> spans = SpansOf(units);
  run.Shuffle(absl::MakeSpan(spans));
  if (key.algorithm == ShuffleAlgorithm::kPy2s) {
    plan.shards = {.spans = std::move(spans)};
    plan.shards.size = SamplesOf(plan.shards.spans);
    PassOverShuffles(plan.shards, run);
    spans.clear();
    int64_t begin = 0;
    for (const UnitSpan& shard : plan.shards.spans) {
      spans.push_back({begin, begin + shard.size()});
      begin += shard.size();
    }
  }
  plan.nodes = Divide(std::move(spans), key.canonical_nodes);
  NumpyGenerator epoch(key.seed + static_cast<uint64_t>(key.epoch));
  if (key.algorithm == ShuffleAlgorithm::kPy2s) {
    for (NodePlan& node : plan.nodes) {
      epoch.Shuffle(absl::MakeSpan(node.spans));
      PassOverShuffles(node, epoch);
    }
    return plan;
  }
  for (NodePlan& node : plan.nodes) epoch.Shuffle(absl::MakeSpan(node.spans));
  if (key.algorithm == ShuffleAlgorithm::kPy1br) {
    for (NodePlan& node : plan.nodes) node.stagger = epoch.Integers(0, key.block_size * 3 / 4);
    for (NodePlan& node : plan.nodes) PassOverBlocks(key.block_size, node, epoch);
    return plan;
  }
  for (NodePlan& node : plan.nodes) {
    PassOverShuffles(node, epoch);
    if (key.algorithm == ShuffleAlgorithm::kPy1e) PassOverMoves(key.block_size, node, epoch);
  }
  return plan;
}

}  // namespace composer
