// Saved by N ranks in one layout, loaded by M in another: bit for bit the same. And who reads how much.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/reshard.h"
#include "checkpoint/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/checkpoint/thread_exchange.h"

namespace composer {
namespace {

using testing::HasSubstr;

enum class Layout { kWhole, kRows, kColumns, kFlat };
constexpr Layout kLayouts[] = {Layout::kWhole, Layout::kRows, Layout::kColumns, Layout::kFlat};
constexpr int kWorlds[] = {1, 2, 3, 4, 8};

// Tensors whose values are all different.
std::vector<std::pair<std::string, at::Tensor>> Values() {
  const auto range = [](int64_t n, at::ScalarType type) { return torch::arange(1, n + 1, at::kFloat).to(type); };
  return {{"matrix", range(35, at::kFloat).view({5, 7})},
          {"cube", range(24, at::kBFloat16).view({3, 4, 2})},
          {"vector", range(13, at::kDouble)},
          {"scalar", torch::tensor(42, at::kLong)},
          {"none", torch::empty({0, 3})},
          {"one.row", range(9, at::kByte).view({1, 9})},
          {"four", range(36, at::kInt).view({2, 3, 2, 3})}};
}

// This rank's equal share of dimension d (as torch.chunk cuts, the last ones smaller or empty), or of the flat tensor.
std::vector<BoxExtent> BoxesOf(Layout layout, const std::vector<int64_t>& shape, int rank, int world) {
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

at::Tensor Cut(const at::Tensor& tensor, const std::vector<int64_t>& offset, at::IntArrayRef shape) {
  at::Tensor part = tensor;
  for (size_t d = 0; d < offset.size(); ++d) part = part.narrow(static_cast<int64_t>(d), offset[d], shape[d]);
  return part;
}

// What a rank holds of the tensors.
StateDict Share(const std::vector<std::pair<std::string, at::Tensor>>& tensors, Layout layout, int rank, int world) {
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

StateDict Blank(StateDict state) {
  for (auto& [name, tensor] : state.tensors) tensor = torch::full_like(tensor, 99);
  for (ShardedTensor& tensor : state.sharded) {
    for (Shard& shard : tensor.shards) shard.data = torch::full_like(shard.data, 99);
  }
  return state;
}

// "" when the rank's share has the values.
std::string ShareDifference(const std::vector<std::pair<std::string, at::Tensor>>& values, const StateDict& state) {
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

void SaveShares(ObjectStore& store, const std::vector<std::pair<std::string, at::Tensor>>& values, Layout layout,
                int world, int64_t batch) {
  RunRanks(world, [&](RankExchange exchange) {
    const int rank = exchange.rank();
    StateDict state = Share(values, layout, rank, world);
    state.small = {{"batch", absl::StrCat(batch)}};
    const auto saved = Saver(store, exchange, {.run_name = "r"}).Save(state, {0, batch}, 0);
    EXPECT_TRUE(saved.ok()) << saved.status();
  });
}

// Counts what is read.
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

// Every layout and number of ranks into every other: 20 checkpoints, 400 loads.
TEST(Sharded, AnyRanksAndLayoutIntoAnyOther) {
  const auto values = Values();
  for (const Layout saved : kLayouts) {
    for (const int writers : kWorlds) {
      MemoryStore store;
      SaveShares(store, values, saved, writers, 1);
      ASSERT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba1") << FindNewestValid(store)->refused[0];
      for (const Layout loaded : kLayouts) {
        for (const int readers : kWorlds) {
          RunExchange(readers, [&](ByteExchange& exchange) {
            StateDict state = Blank(Share(values, loaded, exchange.rank(), readers));
            const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, {}, &exchange);
            EXPECT_TRUE(status.ok()) << status;
            EXPECT_EQ(ShareDifference(values, state), "") << static_cast<int>(saved) << " on " << writers << " to "
                                                          << static_cast<int>(loaded) << " on " << readers;
            EXPECT_EQ(state.small["batch"], "1");
          });
        }
      }
      const auto whole = LoadNewStateDict(store, "ep0-ba1");
      ASSERT_TRUE(whole.ok()) << whole.status();
      EXPECT_EQ(ShareDifference(values, *whole), "");
    }
  }
}

// Rank 0 holds all shards: the whole tensors are left to rank 1.
TEST(Sharded, WholeTensorsAreWrittenWhereThereIsRoom) {
  MemoryStore store;
  RunRanks(2, [&](RankExchange exchange) {
    StateDict state;
    for (int i = 0; i < 4; ++i) state.tensors.emplace_back("t" + std::to_string(i), torch::zeros({10}));
    state.sharded = {{"w", {100}, at::kFloat, {}}};
    if (exchange.rank() == 0) state.sharded[0].shards = {{{0}, torch::zeros({100})}};
    EXPECT_TRUE(Saver(store, exchange, {}).Save(state, {0, 1}, 0).ok());
  });
  const Manifest manifest = *ReadManifest(store, "ep0-ba1");
  for (const TensorEntry& tensor : manifest.tensors)
    EXPECT_EQ(manifest.files[static_cast<size_t>(tensor.boxes[0].file)].name, RankFileName(tensor.name == "w" ? 0 : 1));
}

// Replicas: only the first one's ranks write, all are filled.
TEST(Sharded, OneOfEachBoxsHoldersWritesIt) {
  const auto values = Values();
  MemoryStore store;
  const auto share = [&](int rank) {
    StateDict state = Share(values, Layout::kRows, rank % 2, 2);
    for (ShardedTensor& tensor : state.sharded) tensor.writes = rank < 2;
    return state;
  };
  RunRanks(4, [&](RankExchange exchange) {
    EXPECT_TRUE(Saver(store, exchange, {}).Save(share(exchange.rank()), {0, 1}, 0).ok());
  });
  EXPECT_EQ(ReadManifest(store, "ep0-ba1")->files.size(), 2u);
  for (int rank = 0; rank < 4; ++rank) {
    StateDict state = Blank(share(rank));
    ASSERT_TRUE(LoadCheckpoint(store, "ep0-ba1", &state).ok());
    EXPECT_EQ(ShareDifference(values, state), "") << rank;
  }
}

TEST(Sharded, BoxesThatLeaveAHoleOrOverlapAreNotCommitted) {
  for (const int64_t second : {3, 1}) {
    MemoryStore store;
    RunRanks(2, [&](RankExchange exchange) {
      StateDict state;
      const int64_t offset = exchange.rank() == 0 ? 0 : second;
      state.sharded = {{"w", {5}, at::kFloat, {{{offset}, torch::zeros({2})}}}};
      const auto saved = Saver(store, exchange, {}).Save(state, {0, 1}, 0);
      EXPECT_THAT(std::string(saved.status().message()), HasSubstr("tensor \"w\": parts of it are missing"));
    });
    EXPECT_EQ(FindNewestValid(store)->checkpoint, "");
  }
}

TEST(Sharded, ShapesAreThoseOfTheWholeTensors) {
  MemoryStore store;
  SaveShares(store, Values(), Layout::kRows, 2, 1);
  StateDict state = Share(Values(), Layout::kRows, 0, 2);
  state.sharded[0].shape = {6, 7};
  const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state);
  EXPECT_THAT(std::string(status.message()), HasSubstr("different: matrix (F32[5,7] there, F32[6,7] here)"));
}

// Large tensors: several chunks, straight into the destination or strided.
std::vector<std::pair<std::string, at::Tensor>> LargeValues() {
  return {{"w", torch::arange(0, 1200 * 1000, at::kFloat).view({1200, 1000})},
          {"b", torch::arange(0, 1000, at::kLong)}};
}

TEST(Sharded, LargeTensorsOfManyChunks) {
  const auto values = LargeValues();
  for (const Layout saved : {Layout::kWhole, Layout::kColumns, Layout::kFlat}) {
    MemoryStore store;
    SaveShares(store, values, saved, 3, 1);
    for (const Layout loaded : kLayouts) {
      for (int rank = 0; rank < 4; ++rank) {
        StateDict state = Blank(Share(values, loaded, rank, 4));
        ASSERT_TRUE(LoadCheckpoint(store, "ep0-ba1", &state).ok());
        EXPECT_EQ(ShareDifference(values, state), "") << static_cast<int>(saved) << static_cast<int>(loaded) << rank;
      }
    }
  }
}

// What cannot be written value by value (here a conjugate view, in production a GPU's tensor) is put together first.
TEST(Sharded, TensorsThatAreNotPlainMemoryAreStaged) {
  MemoryStore store;
  const at::Tensor values = torch::complex(torch::arange(300'000, at::kFloat), torch::ones({300'000}));
  StateDict saved;
  saved.tensors = {{"c", values}};
  ASSERT_TRUE(Saver(store, RankExchange(), {}).Save(saved, {0, 1}, 0).ok());
  StateDict state;
  state.tensors = {{"c", torch::zeros({300'000}, at::kComplexFloat).conj()}};
  ASSERT_TRUE(state.tensors[0].second.is_conj());
  ASSERT_TRUE(LoadCheckpoint(store, "ep0-ba1", &state).ok());
  EXPECT_TRUE(torch::equal(state.tensors[0].second.resolve_conj(), values));
}

TEST(Sharded, ARankReadsOnlyTheChunksThatItNeeds) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kRows, 4, 1);
  const int64_t all = 1200 * 1000 * 4 + 8000;
  for (int rank = 0; rank < 4; ++rank) {  // the same topology: its own bytes, and no more
    CountingStore counted(store);
    StateDict state = Blank(Share(values, Layout::kRows, rank, 4));
    ASSERT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state).ok());
    EXPECT_EQ(counted.data_bytes, all / 4);
  }
  CountingStore counted(store);  // eight ranks: at most one chunk and a gap too many at each end
  StateDict state = Blank(Share(values, Layout::kRows, 3, 8));
  ASSERT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state).ok());
  EXPECT_EQ(ShareDifference(values, state), "");
  EXPECT_LE(counted.data_bytes, all / 8 + 2 * kChunkBytes);
  EXPECT_LE(counted.reads, 6);
}

TEST(LoadTogether, EachByteOfWholeTensorsIsReadOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kFlat, 3, 1);
  CountingStore counted(store);
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 4));
    const absl::Status status = LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
  EXPECT_EQ(counted.manifest_bytes, *store.Size("ep0-ba1/manifest.json"));
}

// HYBRID_SHARD: ranks 0 and 2 hold the first half, ranks 1 and 3 the second.
TEST(LoadTogether, AShardOfSeveralReplicasIsReadOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kRows, 2, 1);
  CountingStore counted(store);
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kRows, exchange.rank() % 2, 2));
    const absl::Status status = LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
  counted.fail_at = counted.reads + 3;  // in one group; the other's load is not called a success either
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kRows, exchange.rank() % 2, 2));
    EXPECT_FALSE(LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange).ok());
  });
}

TEST(LoadTogether, RanksWithShardsOfTheirOwnReadThoseAndRanksWithoutReadNothing) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kRows, 2, 1);
  CountingStore counted(store);
  RunExchange(5, [&](ByteExchange& exchange) {  // ranks 0 and 1 have all of it, the others nothing
    StateDict state = Blank(Share(values, Layout::kRows, std::min(exchange.rank(), 2), 2));
    EXPECT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange).ok());
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
}

TEST(LoadTogether, WhatOneRankCannotReadFailsOnAll) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kFlat, 3, 1);
  for (int64_t failing = 1; failing <= 4; ++failing) {  // the manifest, then the data
    CountingStore faulty(store);
    faulty.fail_at = failing;
    RunExchange(3, [&](ByteExchange& exchange) {
      StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
      const absl::Status status = LoadCheckpoint(faulty, "ep0-ba1", &state, {}, &exchange);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << failing;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the line is down"));
    });
  }
}

TEST(LoadTogether, RanksThatWantOtherTensorsAreToldInsteadOfWaiting) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kWhole, 1, 1);
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    if (exchange.rank() == 1) state.tensors.pop_back();
    const LoadSelection lenient{.allow_missing = true, .allow_unexpected = true};
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, lenient, &exchange);
    EXPECT_THAT(std::string(status.message()), HasSubstr(exchange.rank() == 1 ? "wants other" : "another rank"));
  });
}

TEST(LoadTogether, DamageIsFoundOnAllAndAMisfitOnOneFailsOnAll) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kWhole, 1, 1);
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    if (exchange.rank() == 1) state.tensors[0].second = torch::zeros({7});
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, {}, &exchange);
    EXPECT_THAT(std::string(status.message()), HasSubstr(exchange.rank() == 1 ? "F32[7] here" : "another rank"));
  });
  const std::string key = store.List("ep0-ba1")->at(0);
  std::string content = *GetObject(store, key, 1 << 24);
  content[content.size() - 5] = static_cast<char>(content[content.size() - 5] ^ 1);
  ASSERT_TRUE(store.Put(key, {content}).ok());
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, {}, &exchange);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum mismatch of tensor w"));
  });
}

TEST(ChooseCheckpoint, TheRanksVerifyTogetherAndReadEachByteOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  for (int64_t batch : {1, 2}) SaveShares(store, values, Layout::kFlat, 3, batch);
  CountingStore counted(store);
  const auto choose = [&](const std::string& expected, size_t refused) {
    RunRanks(4, [&](RankExchange exchange) {
      const auto choice = ChooseCheckpoint(counted, exchange);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->checkpoint, expected);
      EXPECT_EQ(choice->refused.size(), refused);
    });
  };
  choose("ep0-ba2", 0);
  EXPECT_LE(counted.data_bytes, 1200 * 1000 * 4 + 8000 + 3 * 2000);                  // and the headers
  for (const std::string& key : std::vector<std::string>(*store.List("ep0-ba2"))) {  // whoever's share it is
    const std::string content = *GetObject(store, key, 1 << 24);
    for (const size_t place : {content.size() - 1, content.size() / 2, size_t{30}}) {
      std::string flipped = content;
      flipped[place] = static_cast<char>(flipped[place] ^ 4);
      ASSERT_TRUE(store.Put(key, {flipped}).ok());
      choose("ep0-ba1", 1);
    }
    ASSERT_TRUE(store.Put(key, {content}).ok());
  }
}

TEST(DecideSharing, Reasons) {
  EXPECT_FALSE(DecideSharing({.world_size = 1, .hosts = 1, .remote_store = true}).share);
  EXPECT_FALSE(DecideSharing({.world_size = 8, .hosts = 1}).share);
  EXPECT_THAT(DecideSharing({.world_size = 8, .hosts = 1}).reason, HasSubstr("page cache"));
  EXPECT_TRUE(DecideSharing({.world_size = 8, .hosts = 2}).share);
  EXPECT_TRUE(DecideSharing({.world_size = 8, .hosts = 1, .remote_store = true}).share);
}

TEST(AgreeOnSharing, AllRanksAreToldTheSame) {
  for (const bool remote : {false, true}) {
    const int64_t keys = RunRanks(3, [&](RankExchange exchange) {
      const auto decision = AgreeOnSharing(exchange, remote);
      ASSERT_TRUE(decision.ok()) << decision.status();
      EXPECT_EQ(decision->share, remote);
      EXPECT_THAT(decision->reason, HasSubstr(remote ? "3 times" : "one host"));
    });
    EXPECT_EQ(keys, 0);
  }
  RankExchange alone;
  EXPECT_FALSE(AgreeOnSharing(alone, true)->share);
}

}  // namespace
}  // namespace composer
