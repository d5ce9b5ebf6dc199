// Tests Gloo over the rendezvous store, with ranks as threads.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>

#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "tests/support/spawn_ranks.h"
#include "tests/worker/store_world.h"

namespace composer {
namespace {

// Ranks are threads. c10d's flight recorder, which the process has only one of, sometimes crashes when two groups start
// (see process_group.h).
class GlooGroup : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1); }
};
class GlooGroupTest : public GlooGroup, public ::testing::WithParamInterface<int> {};

TEST_P(GlooGroupTest, AllReduceAndBroadcast) {
  const int world_size = GetParam();
  testing::StoreWorld world;
  const absl::Time start = absl::Now();
  SpawnRanks(world_size, [&](int rank) {
    auto group = ConnectGlooGroup(
        {.store = world.NewStore(), .rank = rank, .world_size = world_size, .timeout = std::chrono::seconds(20)});
    if (rank == 0)
      std::printf("%d ranks connected in %s\n", world_size, absl::FormatDuration(absl::Now() - start).c_str());
    EXPECT_EQ(group->getRank(), rank);
    EXPECT_EQ(group->getSize(), world_size);
    std::vector<at::Tensor> sum = {torch::full({1000}, rank + 1.0)};
    group->allreduce(sum)->wait();
    EXPECT_TRUE(sum[0].eq(world_size * (world_size + 1) / 2).all().item<bool>());
    std::vector<at::Tensor> sent = {torch::full({3}, rank * 10.0)};
    group->broadcast(sent, {.rootRank = world_size - 1})->wait();
    EXPECT_TRUE(sent[0].eq((world_size - 1) * 10).all().item<bool>());
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GlooGroupTest, ::testing::Values(1, 2, 3));

TEST_F(GlooGroup, MissingPeerIsADistErrorAfterTheTimeout) {
  testing::StoreWorld world;
  const auto timeout = std::chrono::milliseconds(300);
  EXPECT_THROW(ConnectGlooGroup({.store = world.NewStore(timeout), .rank = 0, .world_size = 2, .timeout = timeout}),
               c10::DistError);
}

TEST_F(GlooGroup, AddressOfAnotherMachineIsADistErrorThatNamesIt) {
  testing::StoreWorld world;
  try {
    ConnectGlooGroup({.store = world.NewStore(), .rank = 0, .world_size = 1, .address = "192.0.2.1"});
    FAIL() << "192.0.2.1 is not an address of this machine";
  } catch (const c10::DistError& error) {
    EXPECT_THAT(error.what_without_backtrace(), ::testing::HasSubstr("rank 0 cannot connect at 192.0.2.1: "));
  }
}

TEST_F(GlooGroup, EndOfTheGenerationEndsConnecting) {
  testing::StoreWorld world;
  auto store = world.NewStore();
  std::thread ender([&] {
    store->wait({"0/0"});  // rank 0 has begun
    world.EndGeneration("rank 1 exited with 70");
  });
  const absl::Time start = absl::Now();
  EXPECT_THROW(
      ConnectGlooGroup({.store = world.NewStore(), .rank = 0, .world_size = 2, .timeout = std::chrono::seconds(20)}),
      c10::DistError);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  ender.join();
}

// Gloo writes to a peer that is gone: the signal must not end the process, nor replace a program's own handler.
TEST_F(GlooGroup, BrokenPipesAreIgnoredUnlessTheProgramHandlesThem) {
  static int handled = 0;
  for (void (*const before)(int) : {SIG_DFL, static_cast<void (*)(int)>([](int) { ++handled; })}) {
    signal(SIGPIPE, before);
    testing::StoreWorld world;
    ConnectGlooGroup({.store = world.NewStore(), .rank = 0, .world_size = 1, .timeout = std::chrono::seconds(20)});
    raise(SIGPIPE);
    EXPECT_EQ(handled, before == SIG_DFL ? 0 : 1);
  }
  signal(SIGPIPE, SIG_DFL);
}

TEST_F(GlooGroup, NeverDestroyKeepsIt) {
  testing::StoreWorld world;
  auto group =
      ConnectGlooGroup({.store = world.NewStore(), .rank = 0, .world_size = 1, .timeout = std::chrono::seconds(20)});
  c10::weak_intrusive_ptr<c10d::Backend> observer(group);
  NeverDestroy(group);
  group.reset();
  EXPECT_FALSE(observer.expired());
}

}  // namespace
}  // namespace composer
