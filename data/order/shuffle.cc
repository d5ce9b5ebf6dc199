// SPDX-License-Identifier: Apache-2.0
#include "data/order/shuffle.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/order/numpy_generator.h"
#include "data/order/spread.h"

namespace composer {
namespace {

// Samples [begin, end) of one unit.
struct UnitSpan {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// The spans of each canonical node.
using NodeSpans = std::vector<std::vector<UnitSpan>>;

std::vector<UnitSpan> SpansOf(absl::Span<const int64_t> units) {
  std::vector<UnitSpan> spans;
  int64_t begin = 0;
  for (const int64_t size : units) {
    spans.push_back({begin, begin + size});
    begin += size;
  }
  return spans;
}

// Gives each node an equal part of the samples, in order; a span that crosses the end of a part is split there.
NodeSpans Divide(std::vector<UnitSpan> spans, int64_t num_samples, int64_t nodes) {
  NodeSpans parts(static_cast<size_t>(nodes));
  size_t next = 0;
  int64_t so_far = 0;
  for (int64_t node = 0; node < nodes; ++node) {
    const auto part_end = static_cast<int64_t>(static_cast<__int128>(num_samples) * (node + 1) / nodes);
    for (; next < spans.size(); ++next) {
      UnitSpan& span = spans[next];
      if (part_end < so_far + span.size()) {
        if (so_far < part_end) {
          const int64_t split = span.begin + part_end - so_far;
          parts[static_cast<size_t>(node)].push_back({span.begin, split});
          span.begin = split;
          so_far = part_end;
        }
        break;
      }
      parts[static_cast<size_t>(node)].push_back(span);
      so_far += span.size();
    }
  }
  return parts;
}

int64_t SamplesOf(const std::vector<UnitSpan>& spans) {
  int64_t samples = 0;
  for (const UnitSpan& span : spans) samples += span.size();
  return samples;
}

// Writes the span's samples at `to`; returns the part of `ids` that has them.
absl::Span<uint32_t> WriteSpan(const UnitSpan& span, int64_t to, std::vector<uint32_t>& ids) {
  const auto part = absl::MakeSpan(ids).subspan(static_cast<size_t>(to), static_cast<size_t>(span.size()));
  std::iota(part.begin(), part.end(), static_cast<uint32_t>(span.begin));
  return part;
}

// Shuffles within blocks of random sizes that begin `stagger` early, as the package has it: blocks after the first
// overlap the one before by what the first was cut short by.
void ShuffleBlocks(absl::Span<uint32_t> ids, int64_t block_size, int64_t stagger, NumpyGenerator& random) {
  const auto size = static_cast<int64_t>(ids.size());
  std::vector<std::pair<int64_t, int64_t>> blocks;
  for (int64_t end = 0; end < size;) {
    const int64_t drawn = random.Integers(block_size * 3 / 4, block_size * 5 / 4);
    const int64_t from = std::max<int64_t>(end - stagger, 0);
    const int64_t to = std::min(end + drawn - stagger, size);
    blocks.emplace_back(from, to);
    end += to - from;
  }
  for (const auto& [from, to] : blocks) {
    if (from < to) random.Shuffle(ids.subspan(static_cast<size_t>(from), static_cast<size_t>(to - from)));
  }
}

// Moves the samples of each span by a random distance, within about block_size around the span and within the node.
void SpreadSpans(absl::Span<uint32_t> ids, const std::vector<UnitSpan>& spans, int64_t block_size,
                 NumpyGenerator& random) {
  const auto size = static_cast<int64_t>(ids.size());
  Spreader spreader(ids, block_size * 5 / 8 + 2);
  int64_t offset = 0;
  for (const UnitSpan& span : spans) {
    const int64_t drawn = random.Integers(block_size * 3 / 4, block_size * 5 / 4);
    const double cutoff = std::max(0.0, static_cast<double>(drawn - span.size()) / 2);
    const double low = std::max(-cutoff, static_cast<double>(-offset));
    const double high = std::min(cutoff, static_cast<double>(size - offset - span.size()));
    for (int64_t done = 0; done < span.size();) {
      const int64_t until = std::min<int64_t>(span.size(), done + (int64_t{1} << Spreader::kBits));
      for (; done < until; ++done) {
        const int64_t index = offset + done;
        spreader.Place(static_cast<size_t>(index), static_cast<double>(index) + random.Uniform(low, high - low));
      }
      spreader.Advance(static_cast<size_t>(offset + done));
    }
    offset += span.size();
  }
  spreader.Finish();
}

// Samples are shuffled within their shard before shards are split, so this one holds them all from the start.
std::vector<uint32_t> Py2s(const ShuffleKey& key, std::vector<UnitSpan> shards, int64_t num_samples) {
  NumpyGenerator run(key.seed);
  run.Shuffle(absl::MakeSpan(shards));
  std::vector<uint32_t> drawn(static_cast<size_t>(num_samples));
  int64_t offset = 0;
  for (UnitSpan& shard : shards) {
    run.Shuffle(WriteSpan(shard, offset, drawn));
    shard = {offset, offset + shard.size()};
    offset = shard.end;
  }
  NodeSpans nodes = Divide(std::move(shards), num_samples, key.canonical_nodes);
  NumpyGenerator epoch(key.seed + static_cast<uint64_t>(key.epoch));
  std::vector<uint32_t> ids;
  ids.reserve(drawn.size());
  for (std::vector<UnitSpan>& parts : nodes) {
    epoch.Shuffle(absl::MakeSpan(parts));
    for (const UnitSpan& part : parts) {
      const auto samples =
          absl::MakeSpan(drawn).subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.size()));
      epoch.Shuffle(samples);
      ids.insert(ids.end(), samples.begin(), samples.end());
    }
  }
  return ids;
}

std::vector<uint32_t> Py1(const ShuffleKey& key, std::vector<UnitSpan> spans, int64_t num_samples) {
  NumpyGenerator(key.seed).Shuffle(absl::MakeSpan(spans));
  NodeSpans nodes = Divide(std::move(spans), num_samples, key.canonical_nodes);
  NumpyGenerator epoch(key.seed + static_cast<uint64_t>(key.epoch));
  for (std::vector<UnitSpan>& parts : nodes) epoch.Shuffle(absl::MakeSpan(parts));
  const bool blocks = key.algorithm == ShuffleAlgorithm::kPy1br;
  std::vector<int64_t> staggers;
  if (blocks) {
    for (int64_t node = 0; node < key.canonical_nodes; ++node)
      staggers.push_back(epoch.Integers(0, key.block_size * 3 / 4));
  }
  std::vector<uint32_t> ids(static_cast<size_t>(num_samples));
  int64_t offset = 0;
  for (size_t node = 0; node < nodes.size(); ++node) {
    const auto whole =
        absl::MakeSpan(ids).subspan(static_cast<size_t>(offset), static_cast<size_t>(SamplesOf(nodes[node])));
    for (const UnitSpan& span : nodes[node]) {
      const absl::Span<uint32_t> samples = WriteSpan(span, offset, ids);
      if (!blocks) epoch.Shuffle(samples);
      offset += span.size();
    }
    if (blocks) ShuffleBlocks(whole, key.block_size, staggers[node], epoch);
    if (key.algorithm == ShuffleAlgorithm::kPy1e) SpreadSpans(whole, nodes[node], key.block_size, epoch);
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ShuffledIds(const ShuffleKey& key, absl::Span<const int64_t> units) {
  const int64_t num_samples = std::accumulate(units.begin(), units.end(), int64_t{0});
  const bool has_blocks = key.algorithm == ShuffleAlgorithm::kPy1br || key.algorithm == ShuffleAlgorithm::kPy1e;
  const int64_t smallest = key.algorithm == ShuffleAlgorithm::kPy1br ? 2 : 1;
  if (has_blocks && key.block_size < smallest) {
    return absl::InvalidArgumentError(absl::StrCat("the shuffle block of ", key.block_size,
                                                   " samples (of a stream: the block size times its share) ",
                                                   "is too small for py1br and py1e; raise shuffle_block_size"));
  }
  switch (key.algorithm) {
    case ShuffleAlgorithm::kNone: {
      std::vector<uint32_t> ids(static_cast<size_t>(num_samples));
      std::iota(ids.begin(), ids.end(), 0U);
      return ids;
    }
    case ShuffleAlgorithm::kNaive:
      return NumpyGenerator(key.seed + static_cast<uint64_t>(key.epoch))
          .Permutation(static_cast<uint32_t>(num_samples));
    case ShuffleAlgorithm::kPy2s:
      return Py2s(key, SpansOf(units), num_samples);
    default:
      return Py1(key, SpansOf(units), num_samples);
  }
}

}  // namespace composer
