// Tests that the mock's process group is right in every order of streams, and finds what
// NCCL would let pass or hang on.
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/group.h"

#include <functional>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/accelerator/fixture.h"
#include "tests/support/spawn_ranks.h"

namespace composer::mock {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class MockGroups : public OnMock {
 protected:
  // body(group, rank) on ranks that are threads with a device each.
  static void OnRanks(int size, const std::function<void(MockGroup&, int)>& body) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    SpawnRanks(size, [&](int rank) {
      SetCurrentDevice(rank);
      const auto group = c10::make_intrusive<MockGroup>(store, rank, size);
      body(*group, rank);
      Machine::Get().WaitForDevice(rank, "end");
    });
  }
};

at::Tensor Full(int rank, int64_t n, double value) { return at::full({n}, value, at::Device(at::kCUDA, rank)); }

c10::intrusive_ptr<c10d::Work> AllReduce(MockGroup& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  return group.allreduce(tensors, {});
}

TEST_F(MockGroups, CollectivesAreRightInEveryOrder) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Machine::Get().Restart(seed);
    OnRanks(3, [&](MockGroup& group, int rank) {
      at::Tensor x = Full(rank, 30, rank + 1);
      AllReduce(group, x)->wait();
      at::Tensor all = Full(rank, 90, -1), own = x + rank;  // 6, 7, 8
      group._allgather_base(all, own, {})->wait();
      at::Tensor part = Full(rank, 30, 0);
      group._reduce_scatter_base(part, all, {})->wait();
      std::vector<at::Tensor> tensors = {part};
      c10d::BroadcastOptions from_2;
      from_2.rootRank = 2;
      EXPECT_EQ(part[0].item<float>(), static_cast<float>(18 + 3 * rank));
      group.broadcast(tensors, from_2)->wait();
      EXPECT_EQ(part.sum().item<float>(), 30 * 24);
    });
    EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
  }
}

TEST_F(MockGroups, WaitDoesNotBlockTheHost) {
  OnRanks(2, [&](MockGroup& group, int rank) {
    const at::Tensor x = Full(rank, 30, 1);
    Machine::Get().WaitForDevice(rank, "start");
    if (rank == 1) return;
    Machine::Get().TakeWaits();
    const auto work = AllReduce(group, x);
    work->wait();
    EXPECT_FALSE(work->isCompleted()) << "the other rank never calls";
    EXPECT_THAT(Machine::Get().TakeWaits(), testing::Not(Contains("allreduce")));
    group.abort();
    EXPECT_THROW(Machine::Get().WaitForDevice(rank, "aborted"), c10::Error);
  });
}

TEST_F(MockGroups, AResultMustBeWaitedFor) {
  OnRanks(2, [&](MockGroup& group, int rank) {
    const at::Tensor x = Full(rank, 30, 1);
    const auto work = AllReduce(group, x);
    x.add(1);
    work->wait();
  });
  EXPECT_THAT(Machine::Get().TakeFaults(), Contains(HasSubstr("what allreduce on stream")));
}

TEST_F(MockGroups, ATensorMayNotBeFreedUnderACollective) {
  OnRanks(2, [&](MockGroup& group, int rank) { AllReduce(group, Full(rank, 30, 1)); });
  EXPECT_THAT(Machine::Get().TakeFaults(), Contains(HasSubstr("freed while allreduce")));
}

TEST_F(MockGroups, DifferentCallsHangAndAbortEndsThem) {
  OnRanks(2, [&](MockGroup& group, int rank) {
    const at::Tensor x = Full(rank, 30 + rank, 1);
    AllReduce(group, x)->wait();
    Machine::Get().SetStuckLimit(std::chrono::milliseconds(300));
    try {
      Machine::Get().WaitForDevice(rank, "hangs");
      ADD_FAILURE() << "it must hang or be aborted";
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("no stream can go on"), HasSubstr("aborted")));
    }
    group.abort();
    try {
      Machine::Get().WaitForDevice(rank, "ends");
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("aborted"));
    }
    EXPECT_THROW(AllReduce(group, x), c10::Error);
  });
  Machine::Get().SetStuckLimit(std::chrono::seconds(100));
}

}  // namespace
}  // namespace composer::mock
