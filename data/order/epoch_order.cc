// SPDX-License-Identifier: Apache-2.0
#include "data/order/epoch_order.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace composer {
namespace {

constexpr int64_t kFar = int64_t{1} << 22;  // places of a node, above which it is opened anew instead of read on

class StoredEpoch final : public EpochOrder {
 public:
  explicit StoredEpoch(std::vector<uint32_t> ids) : ids_(std::move(ids)) {}
  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  void Read(int64_t begin, absl::Span<uint32_t> ids) override {
    std::copy_n(ids_.begin() + begin, ids.size(), ids.begin());
  }

 private:
  const std::vector<uint32_t> ids_;
};

class GeneratedEpoch final : public EpochOrder {
 public:
  GeneratedEpoch(std::unique_ptr<const EpochShuffle> shuffle, DrawnSamples drawn, int64_t size, int64_t nodes)
      : shuffle_(std::move(shuffle)),
        drawn_(std::move(drawn)),
        size_(size),
        num_nodes_(nodes),
        kept_places_(std::max<int64_t>(1024, kKeptPlaces / nodes)),
        nodes_(static_cast<size_t>(nodes)) {
    for (int64_t node = 0; node < nodes; ++node) {
      if (Start(node + 1) - Start(node) > size_ / nodes) longer_.push_back(static_cast<size_t>(node));
    }
  }

  int64_t size() const override { return size_; }

  // Each node has one place of every round; behind the last round, some have one more.
  void Read(int64_t begin, absl::Span<uint32_t> ids) override {
    const int64_t rounds = size_ / num_nodes_;
    int64_t round = begin / num_nodes_;
    auto node = static_cast<size_t>(begin % num_nodes_);
    const absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t place = begin + static_cast<int64_t>(i);
      if (round < rounds) {
        ids[i] = drawn_[At(node, round)];
      } else {
        ids[i] = drawn_[At(longer_[static_cast<size_t>(place - rounds * num_nodes_)], rounds)];
      }
      if (++node == nodes_.size()) {
        node = 0;
        ++round;
      }
    }
  }

 private:
  struct Node {
    std::unique_ptr<NodeSamples> sequence;
    std::vector<uint32_t> kept;
    int64_t first = 0;  // the place of kept[0]
  };

  int64_t Start(int64_t node) const { return static_cast<int64_t>(static_cast<__int128>(size_) * node / num_nodes_); }

  uint32_t At(size_t number, int64_t place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Node& node = nodes_[number];
    const int64_t index = place - node.first;
    if (node.sequence != nullptr && index >= 0 && index < static_cast<int64_t>(node.kept.size()))
      return node.kept[static_cast<size_t>(index)];
    Generate(number, place);
    return node.kept[static_cast<size_t>(place - node.first)];
  }

  void Generate(size_t number, int64_t place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Node& node = nodes_[number];
    const auto end = [&] { return node.first + static_cast<int64_t>(node.kept.size()); };
    if (node.sequence == nullptr || place < node.first || place > end() + kFar) {
      node.kept.clear();
      node.first = place;
      node.sequence = shuffle_->Open(static_cast<int64_t>(number), place);
    }
    while (end() <= place) {
      if (const auto surplus = static_cast<int64_t>(node.kept.size()) - kept_places_; surplus > kept_places_) {
        node.kept.erase(node.kept.begin(), node.kept.begin() + surplus);
        node.first += surplus;
      }
      node.sequence->Next(node.kept);
    }
  }

  const std::unique_ptr<const EpochShuffle> shuffle_;
  const DrawnSamples drawn_;
  const int64_t size_, num_nodes_;
  const int64_t kept_places_;  // of each node, behind what was read last
  std::vector<size_t> longer_;
  absl::Mutex mutex_;
  std::vector<Node> nodes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<EpochOrder> MakeStoredEpoch(std::vector<uint32_t> ids) {
  return std::make_shared<StoredEpoch>(std::move(ids));
}

std::shared_ptr<EpochOrder> MakeGeneratedEpoch(std::unique_ptr<const EpochShuffle> shuffle, DrawnSamples drawn,
                                               int64_t size, int64_t canonical_nodes) {
  return std::make_shared<GeneratedEpoch>(std::move(shuffle), std::move(drawn), size, canonical_nodes);
}

}  // namespace composer
