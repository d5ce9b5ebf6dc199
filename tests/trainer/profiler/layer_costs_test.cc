// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/layer_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "trainer/core/passes.h"
#include "trainer/loop/autocast.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/model_params.h"

namespace composer {
namespace {

using CostKey = std::pair<std::string, LayerPass>;
using Costs = std::map<CostKey, LayerWork>;

Costs CostsOfStep(Model& model, const Batch& batch, Precision precision = Precision::kFp32) {
  DecoupledAdamWOptimizer optimizer(ParamGroupsOf(model, {.lr = 1e-3, .weight_decay = 0}), AdamWOptions{});
  LayerCosts costs(model);
  at::Tensor loss;
  {
    const AutocastScope autocast(precision, at::kCPU);
    loss = model.loss(model.forward(batch), batch).total;
  }
  loss.backward();
  optimizer.Step();
  Costs result;
  for (const LayerWork& work : costs.Take()) result[{work.layer, work.pass}] = work;
  return result;
}

Batch ImageBatch(at::IntArrayRef shape, int64_t classes) {
  Batch batch;
  batch.inputs = torch::randn(shape);
  batch.targets = torch::randint(classes, {shape[0]}, torch::kLong);
  batch.num_samples = shape[0];
  return batch;
}

TEST(LayerCosts, AProductCountsTwoPerMultiplyAddInEachPass) {
  const auto model = MakeMlp({6, 10, 4});
  const Costs costs = CostsOfStep(*model, ImageBatch({8, 6}, 4));
  constexpr double kFirst = 2.0 * 8 * 6 * 10, kSecond = 2.0 * 8 * 10 * 4;
  EXPECT_EQ(costs.at({"layers.0", LayerPass::kForward}).fp32_flops, kFirst);
  EXPECT_EQ(costs.at({"layers.0", LayerPass::kBackward}).fp32_flops, kFirst) << "the data need no gradient";
  EXPECT_EQ(costs.at({"layers.1", LayerPass::kForward}).fp32_flops, kSecond);
  EXPECT_EQ(costs.at({"layers.1", LayerPass::kBackward}).fp32_flops, 2 * kSecond);
  EXPECT_EQ(costs.at({"layers.1", LayerPass::kForward}).bf16_flops, 0);
  // Input, weight, bias and output, once each.
  EXPECT_EQ(costs.at({"layers.0", LayerPass::kForward}).bytes, 4.0 * (8 * 6 + 6 * 10 + 10 + 8 * 10));
}

TEST(LayerCosts, TheOptimizerReadsFourListsAndWritesThree) {
  const auto model = MakeMlp({6, 10, 4});
  const Costs costs = CostsOfStep(*model, ImageBatch({8, 6}, 4));
  const double parameters = 6 * 10 + 10 + 10 * 4 + 4;
  const LayerWork& update = costs.at({"(optimizer)", LayerPass::kUpdate});
  EXPECT_GE(update.bytes, 7 * 4 * parameters);
  EXPECT_LT(update.bytes, 7 * 4 * parameters + 200) << "besides, the counts of steps";
}

TEST(LayerCosts, AutocastMovesProductsToTheOtherType) {
  const auto model = MakeMlp({6, 10, 4});
  const Costs costs = CostsOfStep(*model, ImageBatch({8, 6}, 4), Precision::kAmpBf16);
  const LayerWork& first = costs.at({"layers.0", LayerPass::kForward});
  EXPECT_EQ(first.fp32_flops, 0);
  EXPECT_EQ(first.bf16_flops, 2.0 * 8 * 6 * 10);
  EXPECT_EQ(costs.at({"layers.1", LayerPass::kBackward}).bf16_flops, 2 * 2.0 * 8 * 10 * 4);
}

TEST(LayerCosts, ConvolutionsCountTheirPlaces) {
  const auto model = MakeResNetSmall({});
  const Costs costs = CostsOfStep(*model, ImageBatch({2, 1, 28, 28}, 10));
  double forward = 0, backward = 0;
  for (const auto& [key, work] : costs) (key.second == LayerPass::kForward ? forward : backward) += work.fp32_flops;
  // The model's own figure counts a step as three forward passes; the first convolution needs no gradient of data.
  EXPECT_NEAR(forward + backward, 2 * model->flops_per_sample(), 0.1 * forward);
}

TEST(LayerCosts, AttentionBelongsToItsModuleAndNothingIsLost) {
  const auto model = MakeGpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20});
  Batch batch;
  batch.inputs = batch.targets = torch::randint(20, {3, 8}, torch::kLong);
  batch.num_samples = 3;
  const Costs costs = CostsOfStep(*model, batch);
  const double attention = 0.5 * 4 * (3 * 16 * 8) * 8;  // q k' and p v of all heads, half of it for causality
  EXPECT_EQ(costs.at({"transformer.blocks.1.attn", LayerPass::kForward}).fp32_flops, attention);
  EXPECT_EQ(costs.at({"transformer.blocks.1.attn", LayerPass::kBackward}).fp32_flops, 2.5 * attention);
  EXPECT_EQ(costs.at({"transformer.blocks.1.mlp.fc", LayerPass::kBackward}).fp32_flops, 2 * 2.0 * 24 * 16 * 64);
  for (const auto& [key, work] : costs) {
    if (key.first != "(other)") continue;
    EXPECT_EQ(work.fp32_flops, 0) << "every product has its layer";
  }
}

TEST(LayerCosts, KernelsOfOurOwnCountLikeOperators) {
  const auto model = MakeGpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocab = 20});
  Batch batch;
  batch.inputs = batch.targets = torch::randint(20, {3, 8}, torch::kLong);
  batch.num_samples = 3;
  constexpr double kGelu = 24 * 64;  // the numbers of its input
  for (const auto& [precision, bytes] : {std::pair(Precision::kFp32, 4), std::pair(Precision::kAmpBf16, 2)}) {
    const Costs costs = CostsOfStep(*model, batch, precision);
    EXPECT_EQ(costs.at({"transformer.blocks.0.mlp", LayerPass::kForward}).bytes, 2 * kGelu * bytes);
    EXPECT_EQ(costs.at({"transformer.blocks.0.mlp", LayerPass::kBackward}).bytes, 3 * kGelu * bytes);
  }
}

// Its backward pass in bfloat16 takes several times as long (attention_core.cc). The rest of the model does not follow.
TEST(LayerCosts, AmpTrainsAttentionInFloat32) {
  const auto model = MakeGpt({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocab = 20});
  Batch batch;
  batch.inputs = batch.targets = torch::randint(20, {3, 8}, torch::kLong);
  batch.num_samples = 3;
  const Costs costs = CostsOfStep(*model, batch, Precision::kAmpBf16);
  for (const LayerPass pass : {LayerPass::kForward, LayerPass::kBackward}) {
    EXPECT_GT(costs.at({"transformer.blocks.0.attn", pass}).fp32_flops, 0);
    EXPECT_EQ(costs.at({"transformer.blocks.0.attn", pass}).bf16_flops, 0);
    EXPECT_GT(costs.at({"transformer.blocks.0.attn.proj", pass}).bf16_flops, 0);
    EXPECT_EQ(costs.at({"transformer.blocks.0.attn.proj", pass}).fp32_flops, 0);
  }
}

TEST(LayerCosts, LeavesNothingBehind) {
  const auto model = MakeMlp({6, 4});
  {
    const LayerCosts costs(*model);
  }
  const LayerCosts again(*model);
  EXPECT_TRUE(again.Take().empty());
}

}  // namespace
}  // namespace composer
