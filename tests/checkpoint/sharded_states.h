// Shared by the tests of sharded checkpoints: a rank's share of tensors in a layout, saved by a number of ranks, and a
// store that counts reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/format/reshard.h"
#include "storage/object_store.h"
#include "tests/checkpoint/rank_threads.h"

namespace composer {

enum class Layout { kWhole, kRows, kColumns, kFlat };
// Returns this rank's equal share of dimension d (split like torch.chunk, the last ones smaller or empty), or of the
// flat tensor.
inline std::vector<BoxExtent> BoxesOf(Layout layout, const std::vector<int64_t>& shape, int rank, int world) {
  const auto share = [&](int64_t size) {
    const int64_t each = (size + world - 1) / world;
    return std::pair(std::min(rank * each, size), std::min((rank + 1) * each, size));
  };
  if (layout == Layout::kFlat || shape.empty()) {
    const auto [begin, end] = share(Volume(shape));
    return FlatRangeToBoxes(shape, begin, end);
  }
  const size_t d = layout == Layout::kRows ? 0 : shape.size() - 1;
  const auto [begin, end] = share(shape[d]);
  BoxExtent box{std::vector<int64_t>(shape.size(), 0), shape};
  box.offset[d] = begin;
  box.shape[d] = end - begin;
  return {box};
}

inline at::Tensor Cut(const at::Tensor& tensor, const std::vector<int64_t>& offset, at::IntArrayRef shape) {
  at::Tensor part = tensor;
  for (size_t d = 0; d < offset.size(); ++d) part = part.narrow(static_cast<int64_t>(d), offset[d], shape[d]);
  return part;
}

// Returns what a rank holds of the tensors.
inline StateDict Share(const std::vector<std::pair<std::string, at::Tensor>>& tensors, Layout layout, int rank,
                       int world) {
  StateDict state;
  for (const auto& [name, tensor] : tensors) {
    if (layout == Layout::kWhole) {
      state.tensors.emplace_back(name, tensor.clone());
      continue;
    }
    ShardedTensor sharded{name, tensor.sizes().vec(), tensor.scalar_type(), {}};
    for (const BoxExtent& box : BoxesOf(layout, sharded.shape, rank, world))
      sharded.shards.push_back({box.offset, Cut(tensor, box.offset, box.shape)});  // columns are not contiguous
    state.sharded.push_back(std::move(sharded));
  }
  return state;
}

inline StateDict Blank(StateDict state) {
  for (auto& [name, tensor] : state.tensors) tensor = torch::full_like(tensor, 99);
  for (ShardedTensor& tensor : state.sharded) {
    for (Shard& shard : tensor.shards) shard.data = torch::full_like(shard.data, 99);
  }
  return state;
}

// Returns "" when the rank's share has the values.
inline std::string ShareDifference(const std::vector<std::pair<std::string, at::Tensor>>& values,
                                   const StateDict& state) {
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    if (!torch::equal(state.tensors[i].second, values[i].second)) return state.tensors[i].first;
  }
  for (size_t i = 0; i < state.sharded.size(); ++i) {
    for (const Shard& shard : state.sharded[i].shards) {
      if (!torch::equal(shard.data, Cut(values[i].second, shard.offset, shard.data.sizes())))
        return state.sharded[i].name;
    }
  }
  return "";
}

inline void SaveShares(ObjectStore& store, const std::vector<std::pair<std::string, at::Tensor>>& values, Layout layout,
                       int world, int64_t batch) {
  RunRanks(world, [&](RankExchange exchange) {
    const int rank = exchange.rank();
    StateDict state = Share(values, layout, rank, world);
    state.small = {{"batch", absl::StrCat(batch)}};
    const auto saved = Saver(store, exchange, {.run_name = "r"}).Save(state, {0, batch}, 0);
    EXPECT_TRUE(saved.ok()) << saved.status();
  });
}

// Counts reads.
class CountingStore final : public ObjectStore {
 public:
  explicit CountingStore(ObjectStore& inner) : inner_(inner) {}
  absl::Status Put(const std::string& key, Pieces pieces) override { return inner_.Put(key, pieces); }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return inner_.PutIfAbsent(key, pieces); }
  absl::StatusOr<int64_t> Size(const std::string& key) override { return inner_.Size(key); }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    (absl::EndsWith(key, "manifest.json") ? manifest_bytes : data_bytes) += static_cast<int64_t>(into.size());
    ++reads;
    if (reads == fail_at) return absl::UnavailableError("the line is down");
    return inner_.Read(key, offset, into);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return inner_.List(folder); }
  absl::Status Delete(const std::string& key) override { return inner_.Delete(key); }
  absl::Status DeleteTree(const std::string& folder) override { return inner_.DeleteTree(folder); }
  std::string Location(const std::string& key) const override { return inner_.Location(key); }

  int64_t data_bytes = 0, manifest_bytes = 0, reads = 0, fail_at = -1;

 private:
  ObjectStore& inner_;
  std::mutex mutex_;
};

// Returns large tensors, with several chunks, either contiguous in the destination or strided.
inline std::vector<std::pair<std::string, at::Tensor>> LargeValues() {
  return {{"w", torch::arange(0, 1200 * 1000, at::kFloat).view({1200, 1000})},
          {"b", torch::arange(0, 1000, at::kLong)}};
}

}  // namespace composer
