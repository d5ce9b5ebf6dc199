// A checkpoint saved by N ranks in one layout and loaded by M in another is the same bit for bit. Also checks how much
// each rank reads.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/sharded_states.h"
#include "tests/checkpoint/thread_exchange.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr Layout kLayouts[] = {Layout::kWhole, Layout::kRows, Layout::kColumns, Layout::kFlat};
constexpr int kWorlds[] = {1, 2, 3, 4, 8};

// Returns tensors whose values are all different.
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

// Converts every layout and number of ranks into every other: 20 checkpoints, 400 loads.
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

// Rank 0 holds all shards, so the whole tensors are left to rank 1.
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

// With replicas, only the ranks of the first one write; all are filled.
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

// A tensor that cannot be written value by value (here a conjugate view, in production a GPU's tensor) is assembled
// first.
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
  for (int rank = 0; rank < 4; ++rank) {  // the same topology: reads its own bytes, and no more
    CountingStore counted(store);
    StateDict state = Blank(Share(values, Layout::kRows, rank, 4));
    ASSERT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state).ok());
    EXPECT_EQ(counted.data_bytes, all / 4);
  }
  CountingStore counted(store);  // eight ranks: at most one chunk and one gap too many at each end
  StateDict state = Blank(Share(values, Layout::kRows, 3, 8));
  ASSERT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state).ok());
  EXPECT_EQ(ShareDifference(values, state), "");
  EXPECT_LE(counted.data_bytes, all / 8 + 2 * kChunkBytes);
  EXPECT_LE(counted.reads, 6);
}

}  // namespace
}  // namespace composer
