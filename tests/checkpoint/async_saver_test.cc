// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/async_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/cleanup.h"
#include "checkpoint/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"
#include "tests/support/gate_store.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// As training does: every tensor gets other values, in place.
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

// The run ends with an error while a save waits for a rank that is gone: nobody waits for its half hour.
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
