// SPDX-License-Identifier: Apache-2.0
#include "data/order/node_samples.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "data/order/draw_skipper.h"
#include "data/order/spread.h"

namespace composer {
namespace {

// Leaves out what comes before the place that was asked for.
class FromPlace {
 public:
  // `at`: the place of what is appended first.
  FromPlace(int64_t at, int64_t place) : left_out_(place - at) {}
  // ids[first, …) were appended; erases what is left out. Returns whether anything stays.
  bool Keep(size_t first, std::vector<uint32_t>& ids) {
    const int64_t erased = std::min(left_out_, static_cast<int64_t>(ids.size() - first));
    if (erased > 0)
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(first), ids.begin() + static_cast<ptrdiff_t>(first) + erased);
    left_out_ -= erased;
    return ids.size() > first;
  }

 private:
  int64_t left_out_;
};

// A node's spans with the generator that is before each of them.
class SpanCursor {
 public:
  // Goes to the span that place `at` is in, from the nearest stop; pass(span, random) does what comes between.
  template <typename Pass>
  SpanCursor(const NodePlan& node, const std::vector<SpanStop>& stops, int64_t at, const Pass& pass)
      : node_(node), random(0) {
    if (stops.empty()) return;
    const auto after = std::upper_bound(stops.begin(), stops.end(), at,
                                        [](int64_t place, const SpanStop& stop) { return place < stop.at; });
    const SpanStop& stop = *std::prev(after);
    span_ = stop.span;
    offset_ = stop.at;
    random = stop.random;
    for (; span_ < node_.spans.size() && offset_ + span().size() <= at; Step()) pass(span(), random);
  }

  bool AtEnd() const { return span_ == node_.spans.size(); }
  const UnitSpan& span() const { return node_.spans[span_]; }
  int64_t offset() const { return offset_; }  // samples of the spans before
  void Step() { offset_ += node_.spans[span_++].size(); }

 private:
  const NodePlan& node_;
  size_t span_ = 0;
  int64_t offset_ = 0;

 public:
  NumpyGenerator random;
};

void PassShuffle(const UnitSpan& span, NumpyGenerator& random) {
  DrawSkipper skipper(random);
  skipper.Shuffle(span.size());
  random = skipper.generator();
}

void Shuffle(absl::Span<uint32_t> samples, NumpyGenerator& random) {
  constexpr size_t kFew = 512;  // samples, for which another way does not pay
  if (samples.size() < kFew) return random.Shuffle(samples);
  DrawSkipper shuffler(random);
  shuffler.Shuffle(samples);
  random = shuffler.generator();
}

// Appends the span's samples, shuffled.
absl::Span<uint32_t> AppendShuffled(const UnitSpan& span, NumpyGenerator& random, std::vector<uint32_t>& ids) {
  const size_t begin = ids.size();
  ids.resize(begin + static_cast<size_t>(span.size()));
  const auto samples = absl::MakeSpan(ids).subspan(begin);
  std::iota(samples.begin(), samples.end(), static_cast<uint32_t>(span.begin));
  Shuffle(samples, random);
  return samples;
}

class Py1sNode final : public NodeSamples {
 public:
  Py1sNode(const NodePlan& node, int64_t place)
      : cursor_(node, node.stops, place, PassShuffle), from_(cursor_.offset(), place) {}
  void Next(std::vector<uint32_t>& ids) override {
    for (const size_t first = ids.size(); !cursor_.AtEnd(); cursor_.Step()) {
      AppendShuffled(cursor_.span(), cursor_.random, ids);
      if (from_.Keep(first, ids)) return cursor_.Step();
    }
  }

 private:
  SpanCursor cursor_;
  FromPlace from_;
};

// A span is of the samples in the order of the run, in which each shard was shuffled as a whole.
class Py2sNode final : public NodeSamples {
 public:
  Py2sNode(const ShufflePlan& plan, const NodePlan& node, int64_t place)
      : shards_(plan.shards), cursor_(node, node.stops, place, PassShuffle), from_(cursor_.offset(), place) {}
  void Next(std::vector<uint32_t>& ids) override {
    for (const size_t first = ids.size(); !cursor_.AtEnd(); cursor_.Step()) {
      const UnitSpan& part = cursor_.span();
      SpanCursor shard(shards_, shards_.stops, part.begin, PassShuffle);
      if (shard.AtEnd()) continue;  // a span without samples
      shard_.clear();
      AppendShuffled(shard.span(), shard.random, shard_);
      const auto samples = absl::MakeSpan(shard_).subspan(static_cast<size_t>(part.begin - shard.offset()),
                                                          static_cast<size_t>(part.size()));
      Shuffle(samples, cursor_.random);
      ids.insert(ids.end(), samples.begin(), samples.end());
      if (from_.Keep(first, ids)) return cursor_.Step();
    }
  }

 private:
  const NodePlan& shards_;
  SpanCursor cursor_;
  FromPlace from_;
  std::vector<uint32_t> shard_;
};

class Py1brNode final : public NodeSamples {
 public:
  Py1brNode(const ShufflePlan& plan, const NodePlan& node, int64_t place)
      : node_(node), place_(place), random_(node.stops[0].random), from_(0, place) {
    blocks_ = DrawBlocks(node.size, plan.key.block_size, node.stagger, random_);
  }

  void Next(std::vector<uint32_t>& ids) override {
    const size_t first = ids.size();
    while (emitted_ < node_.size) {
      const int64_t until = block_ < blocks_.size() ? ShuffleBlock() : node_.size;
      Extend(until);
      ids.insert(ids.end(), open_.begin(), open_.begin() + (until - emitted_));
      open_.erase(open_.begin(), open_.begin() + (until - emitted_));
      emitted_ = until;
      if (from_.Keep(first, ids)) return;
    }
  }

 private:
  // Returns up to which place samples are where they will be.
  int64_t ShuffleBlock() {
    const ShuffledBlock& block = blocks_[block_++];
    const int64_t next = block_ < blocks_.size() ? blocks_[block_].begin : block.end;
    if (block.end > block.begin) {
      Extend(block.end);
      const auto samples = absl::MakeSpan(open_).subspan(static_cast<size_t>(block.begin - emitted_),
                                                         static_cast<size_t>(block.end - block.begin));
      if (block.end <= place_ && next >= block.end) {
        PassShuffle({block.begin, block.end}, random_);  // nobody will see them
      } else {
        Shuffle(samples, random_);
      }
    }
    return std::max(emitted_, next);
  }
  // Opens samples, as they are before they are shuffled, up to this place.
  void Extend(int64_t until) {
    while (emitted_ + static_cast<int64_t>(open_.size()) < until) {
      const UnitSpan& span = node_.spans[span_];
      const int64_t missing = until - emitted_ - static_cast<int64_t>(open_.size());
      const int64_t more = std::min(missing, span.size() - in_span_);
      for (int64_t i = 0; i < more; ++i) open_.push_back(static_cast<uint32_t>(span.begin + in_span_ + i));
      in_span_ += more;
      if (in_span_ == span.size()) {
        ++span_;
        in_span_ = 0;
      }
    }
  }

  const NodePlan& node_;
  const int64_t place_;
  NumpyGenerator random_;
  FromPlace from_;
  std::vector<ShuffledBlock> blocks_;
  size_t block_ = 0, span_ = 0;
  int64_t in_span_ = 0, emitted_ = 0;
  std::vector<uint32_t> open_;  // samples from place `emitted_` on
};

// Places from `place` on, as far as they are before `until` (about).
class Py1ePass {
 public:
  Py1ePass(const ShufflePlan& plan, const NodePlan& node, int64_t place,
           int64_t until = std::numeric_limits<int64_t>::max())
      : block_size_(plan.key.block_size),
        size_(node.size),
        spans_(node, node.stops, std::max<int64_t>(0, place - 2 * ReachOf(block_size_)), PassShuffle),
        moves_(node, node.moves, spans_.offset(),
               [this](const UnitSpan& span, NumpyGenerator& random) {
                 DrawBlock(block_size_, random);
                 random.Skip64(static_cast<uint64_t>(span.size()));
               }),
        from_(spans_.offset(), place),
        spreader_(size_, ReachOf(block_size_), spans_.offset(), until) {}

  void Next(std::vector<uint32_t>& ids) {
    for (const size_t first = ids.size(); !spans_.AtEnd() && !spreader_.IsDone(); Step()) {
      samples_.clear();
      AppendShuffled(spans_.span(), spans_.random, samples_);
      Move(ids);
      if (from_.Keep(first, ids)) return Step();
    }
    if (std::exchange(finished_, true)) return;
    const size_t first = ids.size();
    spreader_.Finish(ids);
    from_.Keep(first, ids);
  }

 private:
  void Step() {
    spans_.Step();
    moves_.Step();
  }
  // Moves the samples of the span by a random distance, within about block_size around it and within the node.
  void Move(std::vector<uint32_t>& ids) {
    const int64_t offset = spans_.offset(), count = spans_.span().size();
    NumpyGenerator& random = moves_.random;
    const int64_t drawn = DrawBlock(block_size_, random);
    const double cutoff = std::max(0.0, static_cast<double>(drawn - count) / 2);
    const double low = std::max(-cutoff, static_cast<double>(-offset));
    const double high = std::min(cutoff, static_cast<double>(size_ - offset - count));
    for (int64_t done = 0; done < count;) {
      const int64_t until = std::min<int64_t>(count, done + (int64_t{1} << Spreader::kBits));
      for (; done < until; ++done) {
        const auto index = static_cast<double>(offset + done);
        spreader_.Place(index + random.Uniform(low, high - low), samples_[static_cast<size_t>(done)]);
      }
      spreader_.Advance(offset + done, ids);
    }
  }

  const int64_t block_size_, size_;
  SpanCursor spans_, moves_;
  FromPlace from_;
  Spreader spreader_;
  std::vector<uint32_t> samples_;
  bool finished_ = false;
};

// The samples that may come to any place are those of a block around it, and moving all of them takes time and memory.
// The first places, which a job waits for, are therefore found by a pass of their own, which keeps only what they need.
class Py1eNode final : public NodeSamples {
 public:
  Py1eNode(const ShufflePlan& plan, const NodePlan& node, int64_t place)
      : plan_(plan), node_(node), place_(place), pass_(std::in_place, plan, node, place, place + kFirstPlaces) {}

  void Next(std::vector<uint32_t>& ids) override {
    const size_t first = ids.size();
    pass_->Next(ids);
    if (ids.size() == first && place_ < node_.size && std::exchange(is_first_pass_, false)) {
      pass_.emplace(plan_, node_, place_);
      pass_->Next(ids);
    }
    place_ += static_cast<int64_t>(ids.size() - first);
  }

 private:
  static constexpr int64_t kFirstPlaces = int64_t{2} << Spreader::kBits;

  const ShufflePlan& plan_;
  const NodePlan& node_;
  int64_t place_;  // the next one
  std::optional<Py1ePass> pass_;
  bool is_first_pass_ = true;
};

}  // namespace

std::unique_ptr<NodeSamples> OpenNode(const ShufflePlan& plan, size_t node, int64_t place) {
  const NodePlan& part = plan.nodes[node];
  switch (plan.key.algorithm) {
    case ShuffleAlgorithm::kPy2s:
      return std::make_unique<Py2sNode>(plan, part, place);
    case ShuffleAlgorithm::kPy1br:
      return std::make_unique<Py1brNode>(plan, part, place);
    case ShuffleAlgorithm::kPy1e:
      return std::make_unique<Py1eNode>(plan, part, place);
    default:
      return std::make_unique<Py1sNode>(part, place);
  }
}

}  // namespace composer
