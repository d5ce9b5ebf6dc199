// Tests the communicator over NCCL, on as many ranks as there are GPUs (threads, one GPU each). Everything is skipped
// without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "trainer/collectives/c10d_communicator.h"
#include "worker/cuda/cuda_loader.h"

namespace composer {
namespace {

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    static const absl::StatusOr<CudaModule*>& cuda = *new absl::StatusOr<CudaModule*>(LoadCuda());
    if (!cuda.ok()) GTEST_SKIP() << cuda.status();
    cuda_ = *cuda;
  }

  void OnRanks(const std::function<void(Communicator&)>& body) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const C10dCommunicator::GroupFactory connect = [&](const std::string& name, int rank, int size) {
      NcclOptions options;
      options.rank = rank;
      options.world_size = size;
      return cuda_->CreateNcclGroup(c10::make_intrusive<c10d::PrefixStore>(name, store), options);
    };
    const int size = std::min(cuda_->device_count(), 4);
    SpawnRanks(size, [&](int rank) {
      cuda_->SetDevice(rank);
      const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(rank));
      C10dCommunicator communicator(connect("world", rank, size), device, connect);
      body(communicator);
    });
  }

  CudaModule* cuda_ = nullptr;
};

at::Tensor Full(Communicator& communicator, at::IntArrayRef shape, double value, at::ScalarType dtype = at::kFloat) {
  return torch::full(shape, value, torch::device(communicator.device()).dtype(dtype));
}

bool AllEqual(const at::Tensor& tensor, double value) { return tensor.eq(value).all().item<bool>(); }

TEST_F(Nccl, AllReduceAndBroadcast) {
  OnRanks([](Communicator& ranks) {
    const int size = ranks.world_size();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
      const at::Tensor sum = Full(ranks, {1000}, ranks.rank() + 1, dtype);
      ranks.AllReduceSum(sum);
      EXPECT_TRUE(AllEqual(sum, size * (size + 1) / 2));
      const at::Tensor copy = Full(ranks, {7}, ranks.rank(), dtype);
      ranks.Broadcast(copy, size - 1);
      EXPECT_TRUE(AllEqual(copy, size - 1));
    }
    double values[] = {1.0, 2.0};
    ranks.AllReduceSum(absl::MakeSpan(values));
    EXPECT_EQ(values[1], 2.0 * size);
  });
}

TEST_F(Nccl, AllGatherAndReduceScatterInPlaceToo) {
  OnRanks([](Communicator& ranks) {
    const int size = ranks.world_size(), rank = ranks.rank();
    const at::Tensor all = Full(ranks, {size, 64}, -1);
    all[rank].fill_(rank);
    ranks.StartAllGather(all, all[rank])->Wait();
    for (int from = 0; from < size; ++from) EXPECT_TRUE(AllEqual(all[from], from));
    const at::Tensor part = Full(ranks, {64}, 0);
    ranks.StartReduceScatterSum(part, all)->Wait();
    EXPECT_TRUE(AllEqual(part, size * rank));
    EXPECT_EQ(ranks.num_collectives(), 2);
    EXPECT_EQ(ranks.bytes_sent(), 2 * 256 * (size - 1));
  });
}

TEST_F(Nccl, Splits) {
  OnRanks([](Communicator& ranks) {
    const auto half = ranks.Split(ranks.rank() % 2, "half");
    const at::Tensor sum = Full(ranks, {3}, 1);
    half->AllReduceSum(sum);
    EXPECT_TRUE(AllEqual(sum, half->world_size()));
    EXPECT_EQ(half->device(), ranks.device());
  });
}

}  // namespace
}  // namespace composer
