// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/gradient_reducer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"

namespace composer {
namespace {

// Parameters whose gradients are known: d/dp sum(p * scale) = scale.
std::vector<at::Tensor> ThreeParams() {
  return {torch::ones({2, 3}).requires_grad_(), torch::ones({4}).requires_grad_(), torch::ones({5}).requires_grad_()};
}

GradientReducer::Options SmallBuckets() {
  GradientReducer::Options options;
  options.first_bucket_bytes = options.bucket_bytes = 5 * 4;
  options.tail_length = 2;
  return options;
}

TEST(GradientReducer, SumsGradientsAndTailOverRanks) {
  constexpr int kRanks = 3;
  ThreadsExchange exchange(kRanks);
  SpawnRanks(kRanks, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    auto params = ThreeParams();
    GradientReducer reducer(params, communicator, SmallBuckets());
    ASSERT_EQ(reducer.num_buckets(), 3);
    for (int step = 1; step <= 2; ++step) {
      for (auto& param : params) param.mutable_grad().reset();
      reducer.tail()[0] = static_cast<float>(rank);
      reducer.tail()[1] = static_cast<float>(step);
      reducer.Arm();
      at::Tensor loss = torch::zeros({});
      for (const auto& param : params) loss = loss + (param * static_cast<double>(rank + step)).sum();
      loss.backward();
      reducer.Finish();
      const double expected = 0 + 1 + 2 + kRanks * step;
      for (const auto& param : params) EXPECT_TRUE(param.grad().eq(expected).all().item<bool>()) << param.grad();
      EXPECT_EQ(reducer.tail()[0], 3);
      EXPECT_EQ(reducer.tail()[1], static_cast<float>(kRanks * step));
    }
    EXPECT_EQ(communicator.num_collectives(), 2 * reducer.num_buckets());
  });
}

TEST(GradientReducer, MicrobatchesAccumulateAndOnlyTheLastIsReduced) {
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    auto params = ThreeParams();
    GradientReducer reducer(params, communicator, SmallBuckets());
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      if (microbatch == 2) reducer.Arm();
      (params[0].sum() + params[1].sum() * 2 + params[2].sum()).backward();
    }
    reducer.Finish();
    EXPECT_TRUE(params[0].grad().eq(6).all().item<bool>());
    EXPECT_TRUE(params[1].grad().eq(12).all().item<bool>());
    EXPECT_EQ(communicator.num_collectives(), reducer.num_buckets());
  });
}

TEST(GradientReducer, ARankWithoutSamplesAndUnusedParametersCountAsZeros) {
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    auto params = ThreeParams();
    GradientReducer reducer(params, communicator, SmallBuckets());
    if (rank == 0) {
      reducer.Arm();
      params[0].sum().backward();
    }
    reducer.Finish();
    EXPECT_TRUE(params[0].grad().eq(1).all().item<bool>());
    EXPECT_TRUE(params[2].grad().eq(0).all().item<bool>());
  });
}

TEST(GradientReducer, RefusesOtherDtypesByName) {
  ThreadsExchange exchange(1);
  ThreadsCommunicator communicator(exchange, 0);
  std::vector<at::Tensor> params = {torch::ones({2}, torch::kDouble).requires_grad_()};
  EXPECT_THROW(GradientReducer(params, communicator, {}), c10::ValueError);
}

}  // namespace
}  // namespace composer
