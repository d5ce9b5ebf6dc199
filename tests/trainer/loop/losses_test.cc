// Tests multiple losses, weighting by tokens, and scaled gradients.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <limits>

#include "tests/trainer/loop/small_run.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/loss/cross_entropy.h"

namespace composer {
namespace {

using testing::HasSubstr;

// Tokens with padding: sequences of 6 classes, with targets -100 past each sequence's length.
class Sequences final : public Dataset {
 public:
  explicit Sequences(bool all_padding = false) : all_padding_(all_padding) {}
  int64_t size() const override { return 24; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    const int64_t rows = static_cast<int64_t>(indices.size());
    Batch batch;
    batch.inputs = torch::empty({rows, 6, 8});
    batch.targets = torch::full({rows, 6}, -100, torch::kInt64);
    for (int64_t r = 0; r < rows; ++r) {
      Draws draws(static_cast<uint32_t>(indices[static_cast<size_t>(r)] + 5));
      for (int64_t i = 0; i < 48; ++i) batch.inputs[r].view(-1)[i] = draws.Next();
      const int64_t length = all_padding_ ? 0 : 1 + (indices[static_cast<size_t>(r)] * 7) % 6;
      for (int64_t t = 0; t < length; ++t) batch.targets[r][t] = (indices[static_cast<size_t>(r)] + t) % 4;
    }
    batch.num_samples = rows;
    batch.num_tokens = rows * 6;
    return batch;
  }

 private:
  bool all_padding_;
};

class Tagger final : public Model {
 public:
  Tagger() : layer_(8, 4) {
    register_module("layer", layer_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return layer_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return NextTokenCrossEntropy(outputs, batch.targets);
  }
  MetricList metrics(bool is_train) const override { return {}; }

 private:
  torch::nn::Linear layer_;
};

TrainerOptions Tokens(int64_t microbatch) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<Tagger>();
  options.train.dataset = std::make_shared<Sequences>();
  options.train.global_train_batch_size = 10;  // 10, 10, 4
  options.accumulate_train_batch_on_tokens = true;
  options.device_train_microbatch_size = microbatch;
  return options;
}

TEST(TokenWeights, NeitherMicrobatchesNorRanksChangeTheResult) {
  const RunResult whole = Train(Tokens(0));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (const int64_t microbatch : {1, 3, 7}) {
    const RunResult parts = Train(Tokens(microbatch));
    EXPECT_LT(LargestDifference(whole, parts), 2e-5) << microbatch;
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(whole.losses[i], parts.losses[i], 1e-5);
  }
  for (const int ranks : {2, 3}) {
    const auto results = TrainOnRanks(ranks, [](int) { return Tokens(2); });
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    EXPECT_LT(LargestDifference(whole, results[0]), 2e-5) << ranks;
    for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(whole.losses[i], results[1].losses[i], 1e-5);
    EXPECT_EQ(results[0].num_collectives, 6 * results[0].collectives_per_step + 2) << "and one an epoch";
  }
  TrainerOptions by_samples = Tokens(3);
  by_samples.accumulate_train_batch_on_tokens = false;
  EXPECT_GT(LargestDifference(whole, Train(std::move(by_samples))), 1e-4) << "weighting by samples differs";
}

TEST(TokenWeights, NoTokenAtAllIsAnError) {
  TrainerOptions options = Tokens(0);
  options.train.dataset = std::make_shared<Sequences>(/*all_padding=*/true);
  const RunResult result = Train(std::move(options));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("no token that generates loss"));
}

class TwoLosses final : public Model {
 public:
  explicit TwoLosses(bool named_total) : named_total_(named_total), layer_(8, 4) {
    register_module("layer", layer_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return layer_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor fit = SoftCrossEntropy(outputs, batch.targets), size = outputs->square().mean();
    if (named_total_) return Loss({{"fit", fit}, {"total", fit + 0.1 * size}});
    return Loss(std::vector<at::Tensor>{fit, size});
  }
  MetricList metrics(bool is_train) const override { return {}; }

 private:
  bool named_total_;
  torch::nn::Linear layer_;
};

TEST(SeveralLosses, ATupleIsSummedAndEachPartLogged) {
  for (const bool named_total : {false, true}) {
    const auto run = [&](int rank, MetricHistory* history) {
      TrainerOptions options = SmallRun();
      options.model = std::make_shared<TwoLosses>(named_total);
      options.device_train_microbatch_size = 3;
      if (rank == 0) options.loggers.push_back(std::make_unique<InMemoryLogger>(history));
      return options;
    };
    MetricHistory alone, together;
    ASSERT_TRUE(Train(run(0, &alone)).status.ok());
    ASSERT_TRUE(TrainOnRanks(2, [&](int rank) { return run(rank, &together); })[0].status.ok());
    const auto total = alone.Values("loss/train/total");
    ASSERT_EQ(total.size(), 10u);
    const auto first = alone.Values(named_total ? "loss/train/fit" : "loss/train/loss0");
    ASSERT_EQ(first.size(), 10u);
    if (!named_total) {
      const auto second = alone.Values("loss/train/loss1");
      for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(total[i], first[i] + second[i], 1e-6);
    }
    const auto of_two = together.Values(named_total ? "loss/train/fit" : "loss/train/loss0");
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(of_two[i], first[i], 1e-5);
  }
}

TEST(Fp16, ScalesTheLossAndStaysNearFp32) {
  const RunResult exact = Train(SmallRun());
  TrainerOptions options = SmallRun();
  options.precision = Precision::kAmpFp16;
  double scale = 0;
  bool half = false;
  AddCallback(options, {Event::kAfterForward}, [&](State& state) { half = state.outputs->scalar_type() == at::kHalf; });
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) { scale = state.settings.scaler->scale(); });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(half);
  EXPECT_GE(scale, 1024);
  EXPECT_NEAR(result.losses.back(), exact.losses.back(), 0.01);
}

TEST(Fp16, AnOverflowOfOneRankSkipsTheStepOnAll) {
  std::vector<std::vector<double>> scales(2);
  std::vector<std::vector<at::Tensor>> weights(2);
  const auto results = TrainOnRanks(2, [&](int rank) {
    TrainerOptions options = SmallRun();
    options.precision = Precision::kAmpFp16;
    AddCallback(options, {Event::kAfterLoss}, [rank](State& state) {
      if (rank == 1 && state.timestamp.batch == 3) state.loss = state.loss * std::numeric_limits<float>::infinity();
    });
    AddCallback(options, {Event::kBatchEnd}, [&scales, &weights, rank](State& state) {
      scales[static_cast<size_t>(rank)].push_back(state.settings.scaler->scale());
      weights[static_cast<size_t>(rank)].push_back(state.model->parameters()[0].detach().clone());
    });
    return options;
  });
  ASSERT_TRUE(results[0].status.ok()) << results[0].status;
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_EQ(scales[0][3], scales[0][2] / 2);
  EXPECT_TRUE(torch::equal(weights[0][2], weights[0][3])) << "the step is skipped";
  EXPECT_FALSE(torch::equal(weights[0][3], weights[0][4]));
  EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
}

}  // namespace
}  // namespace composer
