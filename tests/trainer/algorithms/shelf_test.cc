// Tests today's algorithms that change models and batches by formula, and what they refuse: QK-norm, ReLU², the cap of
// logits, zeros at the beginning, dropped layers, batches that grow, images that alternate. library_test.cc runs them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <mutex>

#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/augment/alternating_flip.h"
#include "trainer/algorithms/schedule/batch_size_warmup.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/logit_soft_cap.h"
#include "trainer/algorithms/surgery/progressive_layer_dropping.h"
#include "trainer/algorithms/surgery/qk_norm.h"
#include "trainer/algorithms/surgery/relu_squared.h"
#include "trainer/algorithms/surgery/zero_init.h"
#include "trainer/core/state.h"
#include "trainer/models/causal_decoder.h"

namespace composer {
namespace {

using testing::HasSubstr;

Batch SomeTokens() {
  Batch batch;
  batch.inputs = torch::arange(16, at::kLong).remainder(13).view({2, 8});
  batch.num_samples = 2;
  return batch;
}

std::shared_ptr<Model> Changed(std::shared_ptr<Model> model, Algorithm&& algorithm) {
  const absl::Status status = algorithm.ChangeModel(*model, ModelContext{Precision::kFp32});
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

std::string Refusal(std::shared_ptr<Model> model, Algorithm&& algorithm) {
  return std::string(algorithm.ChangeModel(*model, ModelContext{Precision::kFp32}).message());
}

TEST(QkNorm, DividesByTheRootOfTheMeanSquare) {
  const at::Tensor x = torch::tensor({3.0F, 4.0F, 0.0F, 0.0F}).view({2, 2});
  EXPECT_TRUE(torch::allclose(NormalizeHeads(x, 0).slice(0, 0, 1), x.slice(0, 0, 1) / std::sqrt(12.5)));
  EXPECT_TRUE(NormalizeHeads(x, 1e-6).isfinite().all().item<bool>());
  EXPECT_EQ(NormalizeHeads(x.to(at::kBFloat16), 0).scalar_type(), at::kBFloat16);
}

TEST(QkNorm, LeavesLogitsAloneWhenQueriesAndKeysGrow) {
  const FirstWeights first(false);
  const auto logits = [&](bool norm, float scale) {
    auto model = first.In(MakeGpt(SmallGpt(false)));
    if (norm) model = Changed(model, QkNorm(0));
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      if (item.key().find("qkv") != std::string::npos) at::Tensor(item.value()).slice(0, 0, 32).mul_(scale);
    }
    return at::Tensor(model->forward(SomeTokens()).tensor());
  };
  EXPECT_TRUE(torch::allclose(logits(true, 1), logits(true, 30), 1e-3, 1e-5));
  EXPECT_FALSE(torch::allclose(logits(false, 1), logits(false, 30), 1e-3, 1e-5));
}

TEST(QkNorm, GoesWithAlibiInEitherOrderAndWithACache) {
  const FirstWeights first(true);
  const auto made = [&](bool alibi_first) {
    auto model = first.In(MakeGpt(SmallGpt(true)));
    if (alibi_first) model = Changed(model, Alibi(AlibiOptions{8, 1}));
    model = Changed(model, QkNorm());
    if (!alibi_first) model = Changed(model, Alibi(AlibiOptions{8, 1}));
    model->eval();
    return model;
  };
  const torch::NoGradGuard no_grad;
  const auto model = made(true);
  const at::Tensor logits = model->forward(SomeTokens());
  EXPECT_TRUE(logits.equal(made(false)->forward(SomeTokens())));
  auto& decoder = dynamic_cast<CausalDecoder&>(*model);
  const auto cache = decoder.NewCache(2, 8);
  const at::Tensor tokens = SomeTokens().inputs;
  decoder.NextLogits(tokens.slice(1, 0, 7), {7, 7}, cache.get());
  const at::Tensor last = decoder.NextLogits(tokens.slice(1, 7, 8), {8, 8}, cache.get());
  EXPECT_TRUE(torch::allclose(last, logits.select(1, 7), 1e-4, 1e-5));
}

TEST(ReluSquared, TakesTheChosenActivationsPlace) {
  EXPECT_TRUE(ReluSquaredLayer().forward(torch::tensor({-2.0F, 3.0F})).equal(torch::tensor({0.0F, 9.0F})));
  const auto model = Changed(MakeGpt(SmallGpt(true)), ReluSquared());
  EXPECT_EQ(FindLayers(*model, LayersOfType<ReluSquaredLayer>()).size(), 2u);
  EXPECT_THAT(Refusal(MakeGpt(SmallGpt(true)), ReluSquared({"silu", "relu"})),
              HasSubstr("relu_squared: replace: [silu, relu], but "));
  EXPECT_THAT(Refusal(MakeGpt(SmallGpt(true)), ReluSquared({"silu"})), HasSubstr(" has gelu"));
}

TEST(LogitSoftCap, BoundsLogitsAndKeepsTheWeights) {
  const at::Tensor logits = torch::tensor({0.0F, 1e-3F, 1e4F, -1e4F});
  EXPECT_TRUE(torch::allclose(SoftCap(logits, 5), torch::tensor({0.0F, 1e-3F, 5.0F, -5.0F})));
  const FirstWeights first(false);
  const auto plain = first.In(MakeGpt(SmallGpt(false)));
  const auto capped = Changed(first.In(MakeGpt(SmallGpt(false))), LogitSoftCap({.cap = 0.01}));
  const at::Tensor expected = SoftCap(plain->forward(SomeTokens()), 0.01);
  EXPECT_TRUE(torch::allclose(capped->forward(SomeTokens()), expected));
  EXPECT_EQ(capped->named_parameters().size(), plain->named_parameters().size());
  EXPECT_NE(capped->named_parameters().find("lm_head.weight"), nullptr);
  EXPECT_THAT(Refusal(MakeGpt(SmallGpt(true)), LogitSoftCap()), HasSubstr("has 0 of that name"));
  EXPECT_THAT(Refusal(MakeGpt(SmallGpt(false)), LogitSoftCap({.layer = "*.fc"})), HasSubstr("has 2 of that name"));
}

TEST(ZeroInit, BlocksBeginAsTheIdentity) {
  const auto model = Changed(MakeGpt(SmallGpt(true)), ZeroInit());
  const torch::NoGradGuard no_grad;
  size_t zeros = 0;
  for (const auto& item : model->named_parameters()) {
    const bool ends_branch = item.key().find(".proj.") != std::string::npos;
    zeros += ends_branch;
    if (ends_branch) EXPECT_TRUE(item.value().eq(0).all().item<bool>()) << item.key();
  }
  EXPECT_EQ(zeros, 8u);
  const auto params = model->named_parameters();
  const at::Tensor inputs = SomeTokens().inputs, wte = params["transformer.wte.weight"];
  const at::Tensor x = at::embedding(wte, inputs) + params["transformer.wpe.weight"];
  const at::Tensor expected =
      at::linear(at::layer_norm(x, {16}, params["transformer.ln_f.weight"], params["transformer.ln_f.bias"]), wte);
  EXPECT_TRUE(torch::allclose(model->forward(SomeTokens()), expected, 1e-5, 1e-6));
  EXPECT_THAT(Refusal(MakeGpt(SmallGpt(true)), ZeroInit({{"*.proj", "*.last"}})),
              HasSubstr("zero_init: layers: `*.last` matches no layer of"));
  EXPECT_THAT(Refusal(MakeTestModel(), ZeroInit()), HasSubstr("zero_init: layers: [*.proj, "));
}

TEST(ProgressiveLayerDropping, ProbabilitiesAreTheFormulas) {
  const LayerDroppingOptions options = {.theta = 0.5, .gamma = std::log(4.0)};
  EXPECT_DOUBLE_EQ(LayerDroppingTheta(options, 0), 1);
  EXPECT_DOUBLE_EQ(LayerDroppingTheta(options, 1), 0.625);
  EXPECT_DOUBLE_EQ(KeepProbability(0.6, 0, 4), 0.9);
  EXPECT_DOUBLE_EQ(KeepProbability(0.6, 3, 4), 0.6);
  const auto refused = [](const LayerDroppingOptions& bad) { return std::string(Validate(bad).message()); };
  EXPECT_EQ(refused({.theta = 0}), "theta: 0, it must be above 0 and at most 1");
  EXPECT_EQ(refused({.gamma = -1}), "gamma: -1, it must be at least 0");
  EXPECT_THAT(Refusal(MakeTestModel(), ProgressiveLayerDropping({})), HasSubstr("it needs blocks (Block)"));
}

// The mean of many passes is near the whole network's, and evaluation is the whole network.
TEST(ProgressiveLayerDropping, IsRightOnAverageAndOffInEvaluation) {
  class Doubles final : public Block {
   protected:
    at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return inputs[0] * 2; }
  };
  class Net final : public Classifier {
   public:
    Net() { register_module("block", block_ = std::make_shared<Doubles>()); }

   protected:
    at::Tensor Logits(const at::Tensor& inputs) override { return block_->forward(inputs); }

   private:
    std::shared_ptr<Doubles> block_;
  };
  const auto net = std::make_shared<Net>();
  ProgressiveLayerDropping dropping({.theta = 0.5, .gamma = 1e9});
  ASSERT_TRUE(dropping.ChangeModel(*net, ModelContext{Precision::kFp32}).ok());
  State state;
  state.max_duration = Time::Batches(10);
  state.timestamp.batch = 5;
  Logger logger;
  ASSERT_TRUE(dropping.Apply(Event::kBatchStart, state, logger).ok());
  torch::manual_seed(5);
  Batch batch;
  batch.inputs = torch::ones({1, 1});
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const double y = net->forward(batch)->item<double>();
    EXPECT_TRUE(y == 1 || y == 3) << y;
    sum += y;
  }
  EXPECT_NEAR(sum / 1000, 2, 0.12);
  net->eval();
  EXPECT_EQ(net->forward(batch)->item<double>(), 2);
}

TEST(BatchSizeWarmup, KeepsTheFirstPart) {
  const BatchSizeWarmupOptions options = {.start = 0.25, .duration = 0.5};
  EXPECT_DOUBLE_EQ(WarmupPart(options, 0), 0.25);
  EXPECT_DOUBLE_EQ(WarmupPart(options, 0.25), 0.625);
  EXPECT_DOUBLE_EQ(WarmupPart(options, 0.9), 1);
  Batch batch;
  batch.inputs = torch::arange(8).view({8, 1});
  batch.targets = torch::arange(8);
  batch.num_samples = 8;
  batch.sample_ids = {0, 1, 2, 3, 4, 5, 6, 7};
  KeepFirstSamples(batch, 0.3);
  EXPECT_EQ(batch.num_samples, 3);
  EXPECT_EQ(batch.inputs.size(0), 3);
  EXPECT_EQ(batch.sample_ids, (std::vector<int64_t>{0, 1, 2}));
  KeepFirstSamples(batch, 0.01);
  EXPECT_EQ(batch.num_samples, 1);
  EXPECT_EQ(std::string(Validate(BatchSizeWarmupOptions{.start = 0}).message()),
            "start: 0, it must be above 0 and at most 1");
  EXPECT_EQ(std::string(Validate(BatchSizeWarmupOptions{.duration = 2}).message()),
            "duration: 2, it must be above 0 and at most 1");
  TrainerOptions run = SmallRun();
  run.algorithms.push_back(std::make_unique<BatchSizeWarmup>(BatchSizeWarmupOptions{0.5, 0.5}));
  std::vector<int64_t> sizes;
  AddCallback(run, {Event::kBatchStart}, [&](State& state) { sizes.push_back(state.batch.num_samples); });
  const RunResult result = Train(std::move(run));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 5, 6, 7, 8, 8, 8, 8, 8, 8}));
  EXPECT_EQ(result.timestamp.sample, 80) << "clocks count what was loaded";
}

TEST(AlternatingFlip, ShowsBothSidesInTwoEpochs) {
  int64_t flipped = 0;
  for (int64_t sample = 0; sample < 1000; ++sample) {
    EXPECT_NE(IsFlipped(17, sample, 0), IsFlipped(17, sample, 1));
    EXPECT_EQ(IsFlipped(17, sample, 0), IsFlipped(17, sample, 2));
    flipped += IsFlipped(17, sample, 0);
  }
  EXPECT_NEAR(static_cast<double>(flipped), 500, 60);
  const at::Tensor images = torch::arange(12).view({2, 1, 2, 3});
  const at::Tensor result = FlipImages(images, {false, true});
  EXPECT_TRUE(result[0].equal(images[0]));
  EXPECT_TRUE(result[1].equal(images[1].flip({2})));
  EXPECT_THAT([&] { FlipImages(torch::zeros({2, 3}), {true, true}); },
              testing::ThrowsMessage<c10::ValueError>(HasSubstr("alternating_flip: it takes images [B, C, H, W]")));
}

// What is mirrored does not depend on the ranks: the samples of two ranks are those of one.
TEST(AlternatingFlip, IsTheSameOnAnyNumberOfRanks) {
  const auto seen = [](int ranks) {
    std::map<std::pair<int64_t, int64_t>, double> corners;  // by epoch and sample
    std::mutex mutex;
    const auto results = TrainOnRanks(ranks, [&](int) {
      TrainerOptions options = ImageRun("", 10);
      options.algorithms.push_back(std::make_unique<AlternatingFlip>());
      AddCallback(options, {Event::kBatchStart}, [&](State& state) {
        const std::lock_guard lock(mutex);
        for (int64_t i = 0; i < state.batch.num_samples; ++i) {
          const int64_t sample = state.batch.sample_ids[static_cast<size_t>(i)];
          corners[{state.timestamp.epoch, sample}] = state.batch.inputs[i][0][0][0].item<double>();
        }
      });
      return options;
    });
    EXPECT_TRUE(results[0].status.ok()) << results[0].status;
    return corners;
  };
  const auto alone = seen(1);
  EXPECT_EQ(alone.size(), 80u);
  EXPECT_EQ(seen(2), alone);
}

}  // namespace
}  // namespace composer
