// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/ddp/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "trainer/parallel/ddp/gradient_order.h"

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
    EXPECT_FALSE(params[2].grad().defined()) << "no rank has a gradient: an optimizer must pass it by";
  });
}

// Returns one rank's gradient (of two) after each microbatch; microbatch m of rank r adds r + m to every element.
std::vector<double> AfterEachMicrobatch(DdpSyncStrategy strategy) {
  std::vector<double> seen;
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    auto params = ThreeParams();
    GradientReducer::Options options = SmallBuckets();
    options.sync_strategy = strategy;
    GradientReducer reducer(params, communicator, options);
    for (int step = 0; step < 2; ++step) {
      for (auto& param : params) param.mutable_grad().reset();
      const int passes = rank == 0 ? 3 : 2;  // rank 1 has one microbatch fewer
      reducer.BeginStep(3);
      reducer.tail()[0] = 1;
      for (int pass = 0; pass < passes; ++pass) {
        reducer.BeginPass();
        const at::Tensor loss = (params[0].sum() + params[1].sum() + params[2].sum()) * (rank + pass);
        if (pass + 1 == passes) reducer.Arm(loss);
        loss.backward();
        reducer.EndPass();
        if (rank == 0 && step == 1) seen.push_back(params[1].grad()[0].item<double>());
      }
      reducer.Finish();
      EXPECT_EQ(reducer.tail()[0], 2);
      for (const auto& param : params) EXPECT_TRUE(param.grad().eq((0 + 1 + 2) + (1 + 2)).all().item<bool>());
    }
    if (rank == 0) seen.push_back(params[1].grad()[0].item<double>());
  });
  return seen;
}

// Composer's own test vectors (tests/trainer/test_ddp_sync_strategy.py), as sums: a rank's own, and that of all ranks.
TEST(GradientReducer, SyncStrategies) {
  EXPECT_THAT(AfterEachMicrobatch(DdpSyncStrategy::kSingleAutoSync), testing::ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(AfterEachMicrobatch(DdpSyncStrategy::kMultiAutoSync), testing::ElementsAre(0 + 1, 1 + 3, 6, 6));
  EXPECT_THAT(AfterEachMicrobatch(DdpSyncStrategy::kForcedSync), testing::ElementsAre(0, 1, 3, 6));
}

// The allowed error of a compression is one rounding to bfloat16 (2^-9) per rank, and for kBf16 one of each partial
// sum.
TEST(GradientReducer, Compression) {
  constexpr int kRanks = 3;
  for (const GradientCompression compression : {GradientCompression::kBf16, GradientCompression::kBf16SumFp32}) {
    ThreadsExchange exchange(kRanks);
    SpawnRanks(kRanks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      auto params = ThreeParams();
      GradientReducer::Options options = SmallBuckets();
      options.gradient_compression = compression;
      GradientReducer reducer(params, communicator, options);
      at::Tensor exact = torch::zeros({5}, at::kDouble);
      for (int other = 0; other < kRanks; ++other) exact += torch::linspace(1, 2, 5, at::kDouble) / (other + 3);
      reducer.tail()[0] = 0.1F;  // not rounded
      reducer.Arm();
      (params[2] * torch::linspace(1, 2, 5) / (rank + 3)).sum().backward();
      reducer.Finish();
      EXPECT_FLOAT_EQ(reducer.tail()[0], 0.1F * kRanks);
      const double error = ((params[2].grad() - exact) / exact).abs().max().item<double>();
      EXPECT_GT(error, 0) << "something was rounded";
      EXPECT_LT(error, (compression == GradientCompression::kBf16 ? kRanks : 1) / 512.0);
      EXPECT_FALSE(params[0].grad().defined());
      EXPECT_EQ(communicator.num_collectives(), reducer.num_buckets() + 1);
    });
  }
}

// The model uses its parameters in another order than it registers them.
TEST(GradientReducer, BucketsAreInTheOrderOfBackward) {
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    auto params = ThreeParams();
    GradientReducer::Options options = SmallBuckets();
    options.order_by_graph = true;
    GradientReducer reducer(params, communicator, options);
    EXPECT_THAT(reducer.order(), testing::ElementsAre(2, 1, 0));
    for (int step = 0; step < 2; ++step) {
      for (auto& param : params) param.mutable_grad().reset();
      // Rank 0 has no samples in the first step; it learns the order from the last rank.
      if (rank == 1 || step == 1) {
        const at::Tensor first = params[2].sum(), second = first * params[0].sum();
        const at::Tensor loss = second * params[1].sum();
        reducer.Arm(loss);
        loss.backward();
      }
      reducer.Finish();
      EXPECT_THAT(reducer.order(), testing::ElementsAre(1, 0, 2));
      EXPECT_TRUE(params[0].grad().eq((step + 1) * 5 * 4).all().item<bool>());
      EXPECT_TRUE(params[2].grad().eq((step + 1) * 6 * 4).all().item<bool>());
    }
    EXPECT_EQ(communicator.num_collectives(), 2 * reducer.num_buckets() + 1);
  });
}

TEST(GradientReducer, UnusedParametersAreFoundBeforeBackward) {
  ThreadsExchange exchange(1);
  ThreadsCommunicator communicator(exchange, 0);
  for (const bool find : {false, true}) {
    auto params = ThreeParams();
    GradientReducer::Options options = SmallBuckets();
    options.find_unused_parameters = find;
    GradientReducer reducer(params, communicator, options);
    const at::Tensor loss = params[0].sum();
    reducer.Arm(loss);
    loss.backward();
    EXPECT_EQ(reducer.tail_sent(), find) << "the buckets of the two others wait for nothing";
    reducer.Finish();
    EXPECT_TRUE(params[0].grad().defined());
    EXPECT_FALSE(params[1].grad().defined());
  }
}

// The order derived from a graph is the one in which autograd runs.
TEST(GradientOrder, IsThatOfAutograd) {
  torch::manual_seed(0);
  std::vector<at::Tensor> w;
  for (int i = 0; i < 8; ++i) w.push_back(torch::randn({4, 4}).requires_grad_());
  const auto branch = [&](const at::Tensor& x, size_t i) { return x.mm(w[i]).tanh().mm(w[i + 1]); };
  const at::Tensor x = branch(torch::ones({2, 4}), 5);
  const at::Tensor y = (x + branch(x, 0)) * branch(x, 2).sigmoid();  // w[7] is not used
  const at::Tensor loss = y.mm(w[4]).mm(w[0]).sum();                 // w[0] is used twice
  std::vector<size_t> seen;
  for (size_t i = 0; i < w.size(); ++i) {
    struct Hook final : torch::autograd::PostAccumulateGradHook {
      Hook(std::vector<size_t>& the_log, size_t the_index) : log(the_log), index(the_index) {}
      void operator()(const at::Tensor&) override { log.push_back(index); }
      std::vector<size_t>& log;
      size_t index;
    };
    torch::autograd::impl::set_post_acc_grad_hooks(w[i], std::make_unique<Hook>(seen, i));
  }
  const std::vector<size_t> order = GradientOrder(loss, w);
  loss.backward();
  EXPECT_EQ(order, seen);
  EXPECT_EQ(order.size(), 7u);
  EXPECT_TRUE(GradientOrder(torch::ones({}), w).empty());
}

TEST(GradientReducer, RefusesOtherDtypesByName) {
  ThreadsExchange exchange(1);
  ThreadsCommunicator communicator(exchange, 0);
  std::vector<at::Tensor> params = {torch::ones({2}, torch::kDouble).requires_grad_()};
  EXPECT_THROW(GradientReducer(params, communicator, {}), c10::ValueError);
}

}  // namespace
}  // namespace composer
