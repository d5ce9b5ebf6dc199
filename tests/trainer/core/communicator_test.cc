// Runs the suite that every Communicator must pass.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/communicator.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/synchronization/notification.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/support/threads_communicator.h"
#include "trainer/collectives/c10d_communicator.h"
#include "trainer/collectives/host_group.h"
#include "trainer/collectives/process_group.h"
#include "trainer/core/torch_status.h"

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
  const C10dCommunicator::GroupFactory connect = [=](const std::string& name, int rank, int ranks) {
    return ConnectGlooGroup({.store = c10::make_intrusive<c10d::PrefixStore>(name, store),
                             .rank = rank,
                             .world_size = ranks,
                             .timeout = std::chrono::seconds(20)});
  };
  return [=](int rank) { return std::make_unique<C10dCommunicator>(connect("world", rank, size), at::kCPU, connect); };
}

template <HostCollectives collectives, bool check_calls>
RankFactory MakeHostGroup(int size) {
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  HostGroupOptions options;
  options.store = options.changing_store = c10::make_intrusive<c10d::HashStore>();
  options.collectives = collectives;
  options.timeout = std::chrono::seconds(20);
  options.check_calls = check_calls;
  return [=](int rank) { return ConnectHostGroup(options, rank, size); };
}
constexpr auto MakeOrderedGlooGroup = MakeHostGroup<HostCollectives::kGloo, false>;
constexpr auto MakeCheckedGlooGroup = MakeHostGroup<HostCollectives::kGloo, true>;
constexpr auto MakeSharedMemoryGroup = MakeHostGroup<HostCollectives::kSharedMemory, false>;

INSTANTIATE_TEST_SUITE_P(Implementations, CommunicatorSuite,
                         testing::Values(CommunicatorCase{"Local", {1}, MakeLocalGroup},
                                         CommunicatorCase{"Threads", {1, 2, 3, 4, 8}, MakeThreadsGroup},
                                         CommunicatorCase{"Gloo", {1, 2, 3, 4}, MakeGlooGroup},
                                         CommunicatorCase{"OrderedGloo", {2, 3, 4}, MakeOrderedGlooGroup},
                                         CommunicatorCase{"CheckedGloo", {2, 3}, MakeCheckedGlooGroup},
                                         CommunicatorCase{"SharedMemory", {2, 3, 4, 8, 16}, MakeSharedMemoryGroup}),
                         [](const auto& test) { return test.param.name; });

// Rank 1 leaves without taking part: its sockets close, and rank 0 gets an error that names the collective.
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

// Notifies when a collective has begun.
class FirstAllReduce final : public Tracer {
 public:
  Span Begin(const TraceName& name) override {
    if (name.name == kAllReduceSpan.name && !begun.HasBeenNotified()) begun.Notify();
    return 0;
  }
  void End(Span span) override {}
  void Instant(const TraceName& name) override {}
  void Counter(const TraceName& name, double value) override {}
  absl::Notification begun;
};

// Gloo's own threads wait for rank 1, which does not arrive until the other is gone.
TEST(HostCommunicator, ADestructorWaitsForNoPeer) {
  const RankFactory make = MakeOrderedGlooGroup(2);
  absl::Notification gone;
  SpawnRanks(2, [&](int rank) {
    std::unique_ptr<Communicator> communicator = make(rank);
    at::Tensor tensor = torch::ones({1 << 20});  // larger than what runs in the caller
    communicator->AllReduceSum(tensor);
    if (rank == 1) {
      EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(15)));
      return;
    }
    FirstAllReduce tracer;
    communicator->set_tracer(&tracer);
    std::unique_ptr<PendingCollective> pending = communicator->StartAllReduceSum(tensor);
    tracer.begun.WaitForNotification();
    pending.reset();
    tensor.reset();
    communicator.reset();
    gone.Notify();
  });
}

}  // namespace
}  // namespace composer
