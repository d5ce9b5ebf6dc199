// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/init_from_environment.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/str_cat.h"
#include "trainer/options/trainer_options.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

int UnusedPort() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  return c10d::TCPStore("127.0.0.1", options).getPort();
}

Environment Torchrun(int rank, int port) {
  const std::string text = absl::StrCat(rank);
  return Environment(Variables{{"RANK", text},
                               {"LOCAL_RANK", text},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", absl::StrCat(port)}});
}

Environment Mpirun(int rank, int port) {
  const std::string text = absl::StrCat(rank);
  return Environment(Variables{{"OMPI_COMM_WORLD_RANK", text},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", text},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"MASTER_PORT", absl::StrCat(port)}});
}

// Runs `body` on two ranks, each in a thread.
void OnTwoRanks(const InitOptions& options, Environment (*launcher)(int rank, int port),
                const std::function<void(std::unique_ptr<Ranks>)>& body) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // process_group.h
  const int port = UnusedPort();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      absl::StatusOr<std::unique_ptr<Ranks>> ranks = InitFromEnvironment(options, launcher(rank, port));
      ASSERT_TRUE(ranks.ok()) << ranks.status();
      EXPECT_EQ((*ranks)->rank(), rank);
      EXPECT_EQ((*ranks)->world_size(), 2);
      EXPECT_EQ((*ranks)->local_rank(), rank);
      body(*std::move(ranks));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void SumAndLeave(std::unique_ptr<Ranks> ranks) {
  const at::Tensor sum = at::full({5}, ranks->rank() + 1.0);
  ranks->communicator().AllReduceSum(sum);
  EXPECT_TRUE(sum.equal(at::full({5}, 3.0)));
  ranks->store()->set(absl::StrCat("from", ranks->rank()), std::string("v"));
  EXPECT_EQ(ranks->store()->get_to_str(absl::StrCat("from", 1 - ranks->rank())), "v");
  TrainerOptions first, second;
  ranks->GiveTo(first);
  ranks->GiveTo(second);
  EXPECT_EQ(first.communicator, &ranks->communicator());
  first.store->set("key", std::string("1"));
  EXPECT_FALSE(second.store->check({"key"}));
  EXPECT_FALSE(ranks->store()->check({"key"}));
  ranks->Leave();
}

TEST(InitFromEnvironment, WithoutALauncherAWorldOfOne) {
  const auto ranks = InitFromEnvironment({}, Environment());
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_EQ((*ranks)->world_size(), 1);
  EXPECT_EQ((*ranks)->local_world_size(), 1);
  EXPECT_EQ((*ranks)->store(), nullptr);
  TrainerOptions options;
  (*ranks)->GiveTo(options);
  EXPECT_EQ(options.communicator->world_size(), 1);
  EXPECT_EQ(options.store, nullptr);
  EXPECT_EQ(options.launch.id, "") << "the trainer draws one";
  (*ranks)->Leave();
}

TEST(InitFromEnvironment, TwoRanksOverSharedMemory) {
  OnTwoRanks({.collectives = HostCollectives::kSharedMemory}, Torchrun, SumAndLeave);
}

TEST(InitFromEnvironment, TwoRanksOverGloo) {
  OnTwoRanks({.collectives = HostCollectives::kGloo}, Torchrun, SumAndLeave);
}

TEST(InitFromEnvironment, TwoRanksOfMpirun) { OnTwoRanks({}, Mpirun, SumAndLeave); }

TEST(InitFromEnvironment, TheDestructorWaitsForNobody) {
  for (const HostCollectives collectives : {HostCollectives::kSharedMemory, HostCollectives::kGloo}) {
    std::latch both_are_there(2);  // rank 0 serves the store that rank 1's start needs
    OnTwoRanks({.collectives = collectives}, Torchrun, [&](std::unique_ptr<Ranks> ranks) {
      both_are_there.arrive_and_wait();
      at::Tensor large = at::zeros({1 << 20});
      std::unique_ptr<PendingCollective> pending;
      // Rank 1 never comes to this collective, whose time-out is 30 minutes.
      if (ranks->rank() == 0) pending = ranks->communicator().StartAllReduceSum(large);
      pending.reset();
      ranks.reset();
    });
  }
}

TEST(InitFromEnvironment, SaysWhatIsWrong) {
  const auto error = [](Variables variables) {
    return InitFromEnvironment({.timeout = std::chrono::milliseconds(300)}, Environment(std::move(variables))).status();
  };
  const Variables two = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}};
  EXPECT_EQ(error(two).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(error(two).message(), HasSubstr("nowhere to meet"));

  Variables ours = two;
  ours["COMPOSER_HUB"] = "unix:/nowhere";
  EXPECT_THAT(error(ours).message(), HasSubstr("MASTER_PORT is not set"));

  Variables rank = two;
  rank["RANK"] = "two";
  EXPECT_EQ(error(rank).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(error(rank).message(), HasSubstr("RANK is \"two\""));

  Variables alone = two;
  alone["MASTER_PORT"] = absl::StrCat(UnusedPort());
  EXPECT_EQ(error(alone).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(error(alone).message(), HasSubstr("rank 1 cannot reach the store at 127.0.0.1:"));
}

}  // namespace
}  // namespace composer
