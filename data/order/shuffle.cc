// SPDX-License-Identifier: Apache-2.0
#include "data/order/shuffle.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/order/node_samples.h"
#include "data/order/numpy_generator.h"
#include "data/order/shuffle_plan.h"

namespace composer {
namespace {

// Samples as they are, or a permutation that is held whole.
class StoredShuffle final : public EpochShuffle {
 public:
  StoredShuffle(int64_t size, int64_t nodes, std::vector<uint32_t> ids)
      : size_(size), nodes_(nodes), ids_(std::move(ids)) {}

  std::unique_ptr<NodeSamples> Open(int64_t node, int64_t place) const override {
    const auto start = [this](int64_t of) { return static_cast<int64_t>(static_cast<__int128>(size_) * of / nodes_); };
    return std::make_unique<Part>(ids_, start(node) + place, start(node + 1));
  }

 private:
  class Part final : public NodeSamples {
   public:
    Part(const std::vector<uint32_t>& ids, int64_t at, int64_t end) : ids_(ids), at_(at), end_(end) {}
    void Next(std::vector<uint32_t>& ids) override {
      constexpr int64_t kPiece = 1 << 14;
      for (const int64_t until = std::min(end_, at_ + kPiece); at_ < until; ++at_)
        ids.push_back(ids_.empty() ? static_cast<uint32_t>(at_) : ids_[static_cast<size_t>(at_)]);
    }

   private:
    const std::vector<uint32_t>& ids_;
    int64_t at_, end_;
  };

  const int64_t size_, nodes_;
  const std::vector<uint32_t> ids_;  // empty: 0, 1, 2, …
};

class PlannedShuffle final : public EpochShuffle {
 public:
  explicit PlannedShuffle(ShufflePlan plan) : plan_(std::move(plan)) {}
  std::unique_ptr<NodeSamples> Open(int64_t node, int64_t place) const override {
    return OpenNode(plan_, static_cast<size_t>(node), place);
  }

 private:
  const ShufflePlan plan_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const EpochShuffle>> EpochShuffle::Create(const ShuffleKey& key,
                                                                         absl::Span<const int64_t> units) {
  const int64_t num_samples = std::accumulate(units.begin(), units.end(), int64_t{0});
  const bool has_blocks = key.algorithm == ShuffleAlgorithm::kPy1br || key.algorithm == ShuffleAlgorithm::kPy1e;
  const int64_t smallest = key.algorithm == ShuffleAlgorithm::kPy1br ? 2 : 1;
  if (has_blocks && key.block_size < smallest) {
    return absl::InvalidArgumentError(absl::StrCat("the shuffle block of ", key.block_size,
                                                   " samples (of a stream: the block size times its share) ",
                                                   "is too small for py1br and py1e; raise shuffle_block_size"));
  }
  if (key.algorithm == ShuffleAlgorithm::kNone)
    return std::make_unique<const StoredShuffle>(num_samples, key.canonical_nodes, std::vector<uint32_t>());
  if (key.algorithm == ShuffleAlgorithm::kNaive) {
    NumpyGenerator random(key.seed + static_cast<uint64_t>(key.epoch));
    return std::make_unique<const StoredShuffle>(num_samples, key.canonical_nodes,
                                                 random.Permutation(static_cast<uint32_t>(num_samples)));
  }
  return std::make_unique<const PlannedShuffle>(PlanShuffle(key, units));
}

absl::StatusOr<std::vector<uint32_t>> ShuffledIds(const ShuffleKey& key, absl::Span<const int64_t> units) {
  ASSIGN_OR_RETURN(const std::unique_ptr<const EpochShuffle> shuffle, EpochShuffle::Create(key, units));
  std::vector<uint32_t> ids;
  ids.reserve(static_cast<size_t>(std::accumulate(units.begin(), units.end(), int64_t{0})));
  for (int64_t node = 0; node < key.canonical_nodes; ++node) {
    const std::unique_ptr<NodeSamples> part = shuffle->Open(node, 0);
    for (size_t before = ids.size() + 1; before != ids.size();) {
      before = ids.size();
      part->Next(ids);
    }
  }
  return ids;
}

}  // namespace composer
