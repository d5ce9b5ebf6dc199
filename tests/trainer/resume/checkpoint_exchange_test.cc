// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/checkpoint_exchange.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/threads_communicator.h"

namespace composer {
namespace {

TEST(CommunicatorExchange, EveryRootsBytesReachAllAndOneRefusalIsSeenByAll) {
  static constexpr int kRanks = 3;
  ThreadsExchange threads(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&threads, rank] {
      ThreadsCommunicator communicator(threads, rank);
      CommunicatorExchange exchange(communicator);
      EXPECT_EQ(exchange.rank(), rank);
      EXPECT_EQ(exchange.world_size(), kRanks);
      for (int root = 0; root < kRanks; ++root) {
        std::string bytes = "from " + std::to_string(rank) + std::string(1, '\0') + "\xff";
        EXPECT_TRUE(exchange.Broadcast(absl::MakeSpan(bytes), root).ok());
        EXPECT_EQ(bytes, "from " + std::to_string(root) + std::string(1, '\0') + "\xff");
      }
      EXPECT_TRUE(exchange.Broadcast({}, 0).ok());
      EXPECT_TRUE(*exchange.All(true));
      EXPECT_FALSE(*exchange.All(rank != 1));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(CommunicatorExchange, AGroupsBytesStayInIt) {
  static constexpr int kRanks = 5;
  ThreadsExchange threads(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&threads, rank] {
      ThreadsCommunicator communicator(threads, rank);
      CommunicatorExchange exchange(communicator);
      for (int turn = 0; turn < 2; ++turn) {  // the second group has the first one's colors, but is another group
        const auto group = exchange.Split(rank % 2);
        ASSERT_TRUE(group.ok()) << group.status();
        EXPECT_EQ((*group)->rank(), rank / 2);
        EXPECT_EQ((*group)->world_size(), rank % 2 == 0 ? 3 : 2);
        std::string bytes = std::to_string(turn) + std::to_string(rank);
        EXPECT_TRUE((*group)->Broadcast(absl::MakeSpan(bytes), 1).ok());
        EXPECT_EQ(bytes, std::to_string(turn) + std::to_string(2 + rank % 2));
        EXPECT_TRUE(*exchange.All(true));
      }
      EXPECT_EQ((*exchange.Split(rank))->world_size(), 1);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace composer
