// Ranks are gone, late, or in another collective: the others must report it soon, and nothing may be left behind.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/processes.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "trainer/collectives/host_group.h"
#include "trainer/collectives/shared_memory_transport.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

HostGroupOptions NewGroup(HostCollectives collectives, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);  // process_group.h: ranks as threads
  HostGroupOptions options;
  options.store = options.changing_store = c10::make_intrusive<c10d::HashStore>();
  options.collectives = collectives;
  options.timeout = timeout;
  options.check_calls = true;
  return options;
}

void ExpectDifference(HostCollectives collectives, const std::function<void(Communicator&)>& on_rank_1) {
  const HostGroupOptions options = NewGroup(collectives);
  SpawnRanks(2, [&](int rank) {
    const auto communicator = ConnectHostGroup(options, rank, 2);
    communicator->AllReduceSum(torch::ones({4}));
    const absl::Status status = CatchTorch([&] {
      if (rank == 1) return on_rank_1(*communicator);
      communicator->AllReduceSum(torch::ones({4}));
    });
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("number 2 failed on rank "), HasSubstr("the ranks are not in the same collective"),
                      HasSubstr("rank 0: all-reduce number 2 (Float, 4 elements); rank 1: ")));
    // The group is unusable: it reports the first cause again, at once.
    const absl::Status again = CatchTorch([&] { communicator->AllReduceSum(torch::ones({4})); });
    EXPECT_EQ(again, status);
  });
}

class Desynchronisation : public testing::TestWithParam<HostCollectives> {};

TEST_P(Desynchronisation, IsAnErrorThatListsEachRanksCall) {
  ExpectDifference(GetParam(), [](Communicator& rank1) { rank1.AllReduceSum(torch::ones({5})); });
  ExpectDifference(GetParam(), [](Communicator& rank1) { rank1.AllReduceSum(torch::ones({4}, at::kLong)); });
  ExpectDifference(GetParam(), [](Communicator& rank1) { rank1.Broadcast(torch::ones({4}), 0); });
  ExpectDifference(GetParam(), [](Communicator& rank1) {
    rank1.StartReduceScatterSum(torch::ones({500'000}), torch::ones({1'000'000}))->Wait();  // on the thread
  });
}

INSTANTIATE_TEST_SUITE_P(Means, Desynchronisation,
                         testing::Values(HostCollectives::kSharedMemory, HostCollectives::kGloo));

TEST(SharedMemory, ARankThatDoesNotComeIsNamed) {
  const HostGroupOptions options = NewGroup(HostCollectives::kSharedMemory, std::chrono::milliseconds(300));
  std::atomic<bool> over{false};
  SpawnRanks(3, [&](int rank) {
    const auto communicator = ConnectHostGroup(options, rank, 3);
    communicator->AllReduceSum(torch::ones({4}));
    if (rank == 1) {
      EXPECT_TRUE(WaitUntil([&] { return over.load(); }, absl::Seconds(20)));
      return;
    }
    const absl::Status status = CatchTorch([&] { communicator->Broadcast(torch::ones({7}), 2); });
    // Of the two that wait, one may see the other give up first.
    EXPECT_TRUE(absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) << status;
    if (absl::IsDeadlineExceeded(status))
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 did not come within 300ms"));
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("broadcast number 2 failed on rank "), HasSubstr(" of 3, Float [7]: rank "),
                      HasSubstr("rank 1: all-reduce number 1 (Float, 4 elements)")));
    over = true;
  });
}

TEST(SharedMemory, ARankThatHasLeftIsNoticedAtOnce) {
  const HostGroupOptions options = NewGroup(HostCollectives::kSharedMemory, std::chrono::minutes(5));
  SpawnRanks(2, [&](int rank) {
    const auto communicator = ConnectHostGroup(options, rank, 2);
    communicator->AllReduceSum(torch::ones({4}));
    if (rank == 1) return;
    const absl::Status status = CatchTorch([&] { communicator->AllReduceSum(torch::ones({1 << 20})); });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(") is gone; last collective of each rank: rank 0: all-reduce number 2"));
  });
}

int OpenFiles() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += entry.is_symlink() ? 1 : 0;
  return count;
}

TEST(SharedMemory, LeavesNoFileAndNoMappingBehind) {
  const auto round = [] {
    const HostGroupOptions options = NewGroup(HostCollectives::kSharedMemory);
    SpawnRanks(4, [&](int rank) { ConnectHostGroup(options, rank, 4)->AllReduceSum(torch::ones({4})); });
  };
  round();
  const int before = OpenFiles();
  round();
  EXPECT_EQ(OpenFiles(), before);
  std::ifstream maps("/proc/self/maps");
  const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, testing::Not(HasSubstr("composer-collectives")));
}

TEST(SharedMemory, AllRanksLearnThatOneCannot) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  SpawnRanks(3, [&](int rank) {
    // With another size, the first rank's file is not the one that rank 1 looks for.
    const auto transport = SharedMemoryTransport::Connect(
        *store, {.rank = rank, .size = 3, .slot_bytes = rank == 1 ? 8192 : 4096, .timeout = absl::Seconds(20)});
    EXPECT_EQ(transport.status().message(), "rank 1: shared memory: the first rank's file is not to be seen from here");
  });
}

TEST(SharedMemory, TicketsOfOthersAreRefused) {
  const auto mine = SharedSegment::Create({.rank = 0, .size = 2});
  ASSERT_TRUE(mine.ok()) << mine.status();
  const std::string ticket = (*mine)->ticket(), boot = ticket.substr(0, ticket.find(' '));
  for (const std::string& bad :
       {std::string(), std::string("1 2 3 4"), boot + " 1 2", boot + " x 3 4", boot + " 1 -1 4",
        boot + " 999999999 3 4", ticket + "1", "0" + ticket, ticket + " 5"}) {
    EXPECT_FALSE(SharedSegment::Open({.rank = 1, .size = 2}, bad).ok()) << bad;
  }
  EXPECT_TRUE(SharedSegment::Open({.rank = 1, .size = 2}, ticket).ok());
}

// Ranks are processes here. No threaded LibTorch code may run in a forked child, so it drives the transport by hand.
constexpr int kRanks = 3;

[[noreturn]] void RunChild(const std::string& folder, int rank, CollectiveKind kind) {
  const absl::Status status = CatchTorch([&] {
    c10d::FileStore store(folder + "/store", kRanks);
    auto transport =
        SharedMemoryTransport::Connect(store, {.rank = rank, .size = kRanks, .timeout = absl::Seconds(60)});
    ThrowIfError(transport.status());
    std::vector<float> whole(kRanks * 100'000), part(100'000, 1.0F);
    for (int64_t i = 1;; ++i) {
      CollectiveCall call{kind, c10::ScalarType::Float, 1, 100'000, i};
      const bool scatters = kind == CollectiveKind::kReduceScatter, gathers = kind == CollectiveKind::kAllGather;
      std::fill(whole.begin(), whole.end(), static_cast<float>(rank + 1));
      (*transport)->Run(call, gathers ? part.data() : whole.data(), scatters ? part.data() : whole.data());
      const float wanted = gathers ? 1.0F : kind == CollectiveKind::kBroadcast ? 2.0F : 6.0F;
      if ((scatters ? part : whole)[77'777] != wanted) _exit(3);
      if (scatters) part.assign(part.size(), 0);
      if (i == 20) std::ofstream(folder + "/ready" + std::to_string(rank)) << "yes\n";
    }
  });
  const bool named = status.message().find("rank 2 (process ") != std::string::npos;
  _exit(status.code() == absl::StatusCode::kUnavailable && named ? 69 : 4);
}

class AKilledRank : public testing::TestWithParam<CollectiveKind> {};

TEST_P(AKilledRank, MakesAllOthersLeaveWithItsName) {
  TempDir dir;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) RunChild(dir.path(), rank, GetParam());
    ranks.push_back(pid);
  }
  const auto ready = [&](int rank) { return std::filesystem::exists(dir.Path("ready" + std::to_string(rank))); };
  EXPECT_TRUE(WaitUntil([&] { return ready(0) && ready(1) && ready(2); }, absl::Seconds(60)));
  kill(ranks[2], SIGKILL);
  const absl::Time killed = absl::Now();
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(ranks[0]) && !IsAlive(ranks[1]); }, absl::Seconds(20)));
  RecordProperty("left_after_ms", static_cast<int>(absl::ToInt64Milliseconds(absl::Now() - killed)));
  for (int rank = 0; rank < kRanks; ++rank) {
    kill(ranks[static_cast<size_t>(rank)], SIGKILL);
    int status = 0;
    waitpid(ranks[static_cast<size_t>(rank)], &status, 0);
    if (rank < 2) {
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 69) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, AKilledRank,
                         testing::Values(CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                         CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast));

}  // namespace
}  // namespace composer
