// Each Communicator, by the suite that all must pass.
// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/conformance/communicator_suite.h"
#include "tests/support/threads_communicator.h"
#include "trainer/parallel/c10d_communicator.h"
#include "trainer/parallel/local_communicator.h"
#include "trainer/torch_status.h"
#include "worker/process_group.h"

namespace composer {
namespace {

RankFactory MakeLocalGroup(int) {
  return [](int) { return std::make_unique<LocalCommunicator>(); };
}

RankFactory MakeThreadsGroup(int size) {
  auto exchange = std::make_shared<ThreadsExchange>(size);
  return [exchange](int rank) { return std::make_unique<ThreadsCommunicator>(*exchange, rank); };
}

RankFactory MakeGlooGroup(int size) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);  // process_group.h: ranks as threads
  const auto store = c10::make_intrusive<c10d::HashStore>();
  return [=](int rank) {
    return std::make_unique<C10dCommunicator>(
        ConnectGlooGroup({.store = store, .rank = rank, .world_size = size, .timeout = std::chrono::seconds(20)}));
  };
}

INSTANTIATE_TEST_SUITE_P(Implementations, CommunicatorSuite,
                         testing::Values(CommunicatorCase{"Local", {1}, MakeLocalGroup},
                                         CommunicatorCase{"Threads", {1, 2, 3}, MakeThreadsGroup},
                                         CommunicatorCase{"Gloo", {1, 2, 3}, MakeGlooGroup}),
                         [](const auto& test) { return test.param.name; });

// Rank 1 leaves without taking part: its sockets close, and rank 0 gets an error that says which collective.
TEST(C10dCommunicator, ALostPeerIsUnavailable) {
  const RankFactory make = MakeGlooGroup(2);
  SpawnRanks(2, [&](int rank) {
    const auto communicator = make(rank);
    const at::Tensor tensor = torch::ones({4});
    communicator->AllReduceSum(tensor);
    if (rank == 1) return;
    const absl::Status status = CatchTorch([&] { communicator->AllReduceSum(tensor); });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("all-reduce number 2 failed: "));
  });
}

}  // namespace
}  // namespace composer
