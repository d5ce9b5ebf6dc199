// The size of microbatches changes nothing but rounding.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

TrainerOptions BatchesOf16(int64_t microbatch) {
  TrainerOptions options = SmallRun();
  options.train.dataset = MakeRows(72);  // 16, 16, 16, 16, 8
  options.train.global_train_batch_size = 16;
  options.device_train_microbatch_size = microbatch;
  return options;
}

class MicrobatchTest : public testing::TestWithParam<int64_t> {};

TEST_P(MicrobatchTest, GivesTheWeightsAndLossesOfTheWholeBatch) {
  const RunResult whole = Train(BatchesOf16(0));
  std::vector<int64_t> sizes;
  TrainerOptions options = BatchesOf16(GetParam());
  AddCallback(options, {Event::kBeforeForward}, [&](State& state) {
    sizes.push_back(state.batch.num_samples);
    EXPECT_EQ(state.batch.inputs.size(0), state.batch.num_samples);
    EXPECT_EQ(state.batch.sample_ids.size(), static_cast<size_t>(state.batch.num_samples));
  });
  AddCallback(options, {Event::kAfterTrainBatch}, [&](State& state) {
    EXPECT_EQ(state.batch.num_samples, state.step.samples) << "the whole batch is back";
  });
  const RunResult parts = Train(std::move(options));
  ASSERT_TRUE(parts.status.ok()) << parts.status;
  EXPECT_LT(LargestDifference(whole, parts), 2e-5);
  ASSERT_EQ(parts.losses.size(), 10u);
  for (size_t i = 0; i < parts.losses.size(); ++i) EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-5) << "step " << i;
  int64_t left = 16;
  for (size_t i = 0; left > 0; ++i) {
    EXPECT_EQ(sizes[i], std::min(GetParam(), left));
    left -= sizes[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, MicrobatchTest, testing::Values(1, 3, 5, 16, 100));

TEST(Microbatches, TheLossIsTheMeanOverTheBatch) {
  TrainerOptions options = BatchesOf16(5);
  auto model = options.model;
  double expected = 0;
  AddCallback(options, {Event::kBatchStart}, [&](State& state) {
    const torch::NoGradGuard no_grad;
    expected = model->loss(model->forward(state.batch), state.batch).total.item<double>();
  });
  int checked = 0;
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    EXPECT_NEAR(state.step.loss, expected, 1e-6);
    ++checked;
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(checked, 10);
}

TEST(Microbatches, Bf16OnCpuStaysNearFp32AndKeepsFp32Weights) {
  const RunResult exact = Train(BatchesOf16(0));
  TrainerOptions options = BatchesOf16(5);
  options.precision = Precision::kAmpBf16;
  bool seen_bf16 = false;
  AddCallback(options, {Event::kAfterForward},
              [&](State& state) { seen_bf16 = state.outputs->scalar_type() == at::kBFloat16; });
  const RunResult mixed = Train(std::move(options));
  ASSERT_TRUE(mixed.status.ok()) << mixed.status;
  EXPECT_TRUE(seen_bf16);
  EXPECT_EQ(mixed.tensors[0].second.scalar_type(), at::kFloat);
  EXPECT_NEAR(mixed.losses.back(), exact.losses.back(), 0.02);
  EXPECT_GT(LargestDifference(exact, mixed), 1e-7) << "it was not mixed at all";
}

TEST(Microbatches, TrainMetricsAreThoseOfTheWholeBatch) {
  std::vector<double> whole, parts;
  for (auto [microbatch, values] : {std::pair{0, &whole}, std::pair{3, &parts}}) {
    TrainerOptions options = BatchesOf16(microbatch);
    AddCallback(options, {Event::kBatchEnd},
                [values](State& state) { values->push_back(state.train_metrics[0]->Compute()); });
    ASSERT_TRUE(Train(std::move(options)).status.ok());
  }
  EXPECT_EQ(whole, parts);
  ASSERT_EQ(whole.size(), 10u);
  EXPECT_GT(whole.back(), 0);
}

}  // namespace
}  // namespace composer
