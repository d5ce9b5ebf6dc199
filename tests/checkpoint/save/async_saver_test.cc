// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/async_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"
#include "tests/support/gate_store.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Gives every tensor other values in place, as training does.
void Spoil(StateDict& state) {
  for (auto& [name, tensor] : state.tensors) tensor.zero_();
  state.small.clear();
}

TEST(AsyncSaver, SavesTheStateAsItWasAtStart) {
  MemoryStore memory;
  GateStore store(memory);
  AsyncSaver saver(store, RankExchange(), {.run_name = "r"}, std::make_shared<SaveThread>());
  EXPECT_FALSE(saver.in_flight());
  StateDict state = MakeState(3);
  saver.Start(state, {0, 3}, 30);
  Spoil(state);
  EXPECT_TRUE(saver.in_flight());
  EXPECT_FALSE(saver.has_ended()) << "nothing is written yet";
  EXPECT_FALSE(saver.WaitFor(absl::ZeroDuration()));
  EXPECT_TRUE(CommittedCheckpoints(memory)->empty());
  store.Open();
  const SaveOutcome outcome = saver.Take();
  ASSERT_TRUE(outcome.location.ok()) << outcome.location.status();
  EXPECT_EQ(outcome.step, (CheckpointName{0, 3}));
  EXPECT_FALSE(saver.in_flight() || saver.has_ended() || saver.has_failed());
  EXPECT_TRUE(saver.WaitFor(absl::ZeroDuration())) << "none is in flight";
  EXPECT_EQ(LoadedDifference(memory, 3), "");
}

TEST(AsyncSaver, OnSeveralRanksWhichTrainOn) {
  for (const int world : {1, 2, 3, 9}) {
    MemoryStore store;
    const int64_t keys = RunRanks(world, [&](RankExchange exchange) {
      AsyncSaver saver(store, exchange, {.run_name = "r", .keep = 2}, std::make_shared<SaveThread>());
      StateDict state;
      for (int64_t batch = 1; batch <= 4; ++batch) {
        if (saver.in_flight()) ASSERT_TRUE(saver.Take().location.ok());
        state = MakeState(batch);
        saver.Start(state, {0, batch}, batch * 10);
        Spoil(state);
      }
      ASSERT_TRUE(saver.Take().location.ok());
    });
    EXPECT_EQ(keys, 0);
    EXPECT_EQ(*CommittedCheckpoints(store), (std::vector<CheckpointName>{{0, 3}, {0, 4}})) << world;
    for (const int64_t batch : {3, 4}) EXPECT_EQ(LoadedDifference(store, batch), "") << world;
  }
}

TEST(AsyncSaver, OneBufferServesAllSavesAndGrowsOnce) {
  MemoryStore store;
  AsyncSaver saver(store, RankExchange(), {.run_name = "r"}, std::make_shared<SaveThread>());
  const auto save = [&](int64_t batch, int64_t floats) {
    StateDict state;
    state.tensors = {{"a", torch::full({floats}, static_cast<double>(batch))}, {"b", torch::ones({3}, at::kByte)}};
    saver.Start(state, {0, batch}, 0);
    EXPECT_TRUE(saver.Take().location.ok());
    return saver.buffer_bytes();
  };
  const int64_t first = save(1, 1000);
  EXPECT_EQ(first, HostBuffer::Aligned(4000) + HostBuffer::Aligned(3));
  EXPECT_EQ(save(2, 1000), first);
  EXPECT_EQ(save(3, 10), first) << "a smaller state takes no other";
  EXPECT_EQ(save(4, 2000), HostBuffer::Aligned(8000) + HostBuffer::Aligned(3));
  for (int64_t batch = 1; batch <= 4; ++batch) {
    const auto loaded = LoadNewStateDict(store, CheckpointName{0, batch}.ToString());
    ASSERT_TRUE(loaded.ok());
    for (const auto& [name, tensor] : loaded->tensors)
      EXPECT_TRUE(torch::all(tensor == (name == "a" ? static_cast<double>(batch) : 1.0)).item<bool>());
  }
}

// The second save of a state copies by the plan of the first; any other state gets a new plan.
TEST(AsyncSaver, AStateOfAnotherFormIsSavedAsItIs) {
  const auto whole = [](const char* name, at::Tensor tensor) {
    StateDict state;
    state.tensors = {{"first", torch::arange(4, at::kFloat)}, {name, std::move(tensor)}};
    return state;
  };
  const auto columns = [](std::vector<int64_t> offset, double value) {
    StateDict state;
    const int64_t other = 1 - offset[1];
    state.sharded = {{"w",
                      {2, 2},
                      at::kFloat,
                      {{std::move(offset), torch::full({2, 1}, value)}, {{0, other}, torch::full({2, 1}, -value)}}},
                     {"none", {0, 3}, at::kFloat, {}}};
    return state;
  };
  const std::vector<StateDict> states = {whole("a", torch::ones({6})),
                                         whole("a", torch::full({6}, 2.0)),
                                         whole("b", torch::ones({6})),
                                         whole("b", torch::ones({2, 3})),
                                         whole("b", torch::ones({2, 3}, at::kInt)),
                                         whole("b", torch::ones({3, 2}).t()),
                                         whole("b", torch::ones({12}, at::kShort)),
                                         columns({0, 0}, 1),
                                         columns({0, 0}, 2),
                                         columns({0, 1}, 3)};
  MemoryStore store;
  AsyncSaver saver(store, RankExchange(), {.run_name = "r"}, std::make_shared<SaveThread>());
  for (size_t i = 0; i < states.size(); ++i) {
    const CheckpointName step{0, static_cast<int64_t>(i)};
    saver.Start(states[i], step, 0);
    const SaveOutcome outcome = saver.Take();
    ASSERT_TRUE(outcome.location.ok()) << i << ": " << outcome.location.status();
    const StateDict loaded = *LoadNewStateDict(store, step.ToString());
    for (size_t k = 0; k < states[i].tensors.size(); ++k) {
      EXPECT_EQ(loaded.tensors[k].first, states[i].tensors[k].first) << i;
      EXPECT_TRUE(torch::equal(loaded.tensors[k].second, states[i].tensors[k].second)) << i;
    }
    for (const ShardedTensor& tensor : states[i].sharded) {
      for (const Shard& shard : tensor.shards) {
        const at::Tensor column = loaded.tensors[0].second.narrow(1, shard.offset[1], 1);
        EXPECT_TRUE(torch::equal(column, shard.data)) << i;
      }
    }
  }
}

TEST(AsyncSaver, WholeTensorsGoToTheRankWithFewerShards) {
  MemoryStore store;
  const int64_t keys = RunRanks(2, [&](RankExchange exchange) {
    const int rank = exchange.rank();
    AsyncSaver saver(store, exchange, {.run_name = "r"}, std::make_shared<SaveThread>());
    StateDict state;
    state.tensors = {{"a", torch::ones({10})}, {"b", torch::ones({20})}};
    state.sharded = {{"w", {100}, at::kFloat, {}}};
    if (rank == 0) state.sharded[0].shards = {{{0}, torch::ones({100})}};
    for (const int64_t batch : {1, 2}) {
      saver.Start(state, {0, batch}, 0);
      EXPECT_TRUE(saver.Take().location.ok());
    }
  });
  EXPECT_EQ(keys, 0);
  for (const char* checkpoint : {"ep0-ba1", "ep0-ba2"}) {
    const Manifest manifest = *ReadManifest(store, checkpoint);
    ASSERT_EQ(manifest.tensors.size(), 3u);
    EXPECT_EQ(manifest.tensors[0].boxes[0].file, 1) << "a, on rank 1";
    EXPECT_EQ(manifest.tensors[1].boxes[0].file, 1) << "b";
    EXPECT_EQ(manifest.tensors[2].boxes[0].file, 0) << "w";
  }
}

TEST(AsyncSaver, AnErrorIsAnOutcomeOnAllRanksAndHarmsNothing) {
  MemoryStore disk;
  ASSERT_TRUE(SaveOne(disk, 1, {.run_name = "r"}).ok());
  RunRanks(3, [&](RankExchange exchange) {
    FaultStore store(disk);
    AsyncSaver saver(store, exchange, {.run_name = "r"}, std::make_shared<SaveThread>());
    if (exchange.rank() == 1) store.FailCalls(0, 100, absl::ResourceExhaustedError("No space left on device"));
    saver.Start(MakeState(2), {0, 2}, 0);
    ASSERT_TRUE(saver.WaitFor(absl::InfiniteDuration()));
    EXPECT_TRUE(saver.has_ended() && saver.has_failed());
    const SaveOutcome failed = saver.Take();
    EXPECT_EQ(failed.location.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(failed.location.status().message()),
                AllOf(HasSubstr("ep0-ba2"), HasSubstr("rank 1"), HasSubstr("No space left on device")));
    store.FailCalls(0, 0, absl::OkStatus());
    StateDict unstorable = MakeState(3);
    if (exchange.rank() == 2) unstorable.tensors[0].second = torch::zeros({2}, at::kComplexDouble);
    saver.Start(unstorable, {0, 3}, 0);
    EXPECT_THAT(std::string(saver.Take().location.status().message()),
                AllOf(HasSubstr("rank 2"), HasSubstr("model.fc.weight")));
    saver.Start(MakeState(4), {0, 4}, 0);
    EXPECT_TRUE(saver.Take().location.ok());
  });
  EXPECT_EQ(*CommittedCheckpoints(disk), (std::vector<CheckpointName>{{0, 1}, {0, 4}}));
  EXPECT_EQ(disk.List("")->size(), 2u + 4u + 1u) << "what the failed ones wrote is gone";
  EXPECT_EQ(LoadedDifference(disk, 4), "");
}

// The run ends with an error while a save waits for a rank that is gone: its half-hour timeout is not waited for.
TEST(AsyncSaver, IsGivenUpWhereItWaitsForARankThatIsGone) {
  MemoryStore disk;
  ASSERT_TRUE(SaveOne(disk, 1, {.run_name = "r"}).ok());
  for (const int rank : {0, 1}) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    AsyncSaver saver(disk, RankExchange(store, rank, 2, absl::Hours(1)), {.run_name = "r"},
                     std::make_shared<SaveThread>());
    saver.Start(MakeState(2), {0, 2}, 0);
    EXPECT_FALSE(saver.WaitFor(absl::Milliseconds(50)));
  }
  EXPECT_EQ(FindNewestValid(disk)->checkpoint, "ep0-ba1");
  ASSERT_TRUE(SaveOne(disk, 3, {.run_name = "r"}).ok());
  EXPECT_EQ(*CommittedCheckpoints(disk), (std::vector<CheckpointName>{{0, 1}, {0, 3}}));
}

TEST(AsyncSaver, SeveralShareAThreadAndWriteInTurn) {
  MemoryStore memory, other;
  GateStore store(memory);
  const auto thread = std::make_shared<SaveThread>();
  AsyncSaver first(store, RankExchange(), {.run_name = "r"}, thread);
  AsyncSaver second(other, RankExchange(), {.run_name = "r"}, thread);
  first.Start(MakeState(1), {0, 1}, 0);
  second.Start(MakeState(1), {0, 1}, 0);
  EXPECT_FALSE(second.WaitFor(absl::Milliseconds(20))) << "the first is not through";
  store.Open();
  EXPECT_TRUE(second.Take().location.ok());
  EXPECT_TRUE(first.has_ended()) << "it was before the second";
  EXPECT_TRUE(first.Take().location.ok());
}

// The first save may be waiting for ranks that are gone.
TEST(AsyncSaver, OneThatWaitsBehindAnotherIsDroppedAtOnce) {
  MemoryStore memory, other;
  GateStore store(memory);
  const auto thread = std::make_shared<SaveThread>();
  AsyncSaver first(store, RankExchange(), {.run_name = "r"}, thread);
  first.Start(MakeState(1), {0, 1}, 0);
  {
    AsyncSaver second(other, RankExchange(), {.run_name = "r"}, thread);
    second.Start(MakeState(1), {0, 1}, 0);
    EXPECT_FALSE(second.has_ended());
  }
  EXPECT_FALSE(first.has_ended()) << "its destructor has not waited for the first";
  store.Open();
  EXPECT_TRUE(first.Take().location.ok());
  EXPECT_TRUE(other.List("").value().empty());
}

TEST(AsyncSaver, AStateWithoutTensorsOrBytes) {
  MemoryStore store;
  AsyncSaver saver(store, RankExchange(), {.run_name = "r"}, std::make_shared<SaveThread>());
  StateDict state;
  state.small = {{"timestamp", "{}"}};
  saver.Start(state, {0, 1}, 0);
  EXPECT_TRUE(saver.Take().location.ok());
  state.tensors = {{"none", torch::empty({0, 3})}};
  saver.Start(state, {0, 2}, 0);
  EXPECT_TRUE(saver.Take().location.ok());
  EXPECT_TRUE(VerifyCheckpoint(store, "ep0-ba2").problems.empty());
}

}  // namespace
}  // namespace composer
