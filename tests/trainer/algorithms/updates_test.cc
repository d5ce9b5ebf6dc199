// Tests algorithms that change the loss or the update of a step, by formula: cautious weight decay and z-loss.
// library_test.cc runs them on ranks, sharded, resumed.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/algorithms/augment/mixup.h"
#include "trainer/algorithms/optimisation/cautious_weight_decay.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/z_loss.h"
#include "trainer/core/state.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(CautiousWeightDecay, DecaysOnlyWhereItGoesWithTheUpdate) {
  // The first two move towards 0, the next two away from it; the fifth stays.
  const at::Tensor before = torch::tensor({1.0F, -2.0F, 1.0F, -2.0F, 4.0F});
  const at::Tensor param = torch::tensor({0.9F, -1.9F, 1.1F, -2.1F, 4.0F});
  DecayCautiously(param, before.clone(), 0.5);
  EXPECT_TRUE(torch::allclose(param, torch::tensor({0.4F, -0.9F, 1.1F, -2.1F, 2.0F})));
}

TEST(CautiousWeightDecay, TakesTheOptimizersOwnDecayOver) {
  const State state;
  struct Row {
    std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup>)> make;
    double decay;  // with weight_decay 0.4, at half of the first learning rate
  };
  const Row rows[] = {
      {[](auto groups) { return std::make_unique<AdamWOptimizer>(groups, AdamOptions{}); }, 0.05 * 0.4},
      {[](auto groups) { return std::make_unique<LionOptimizer>(groups, LionOptions{}); }, 0.05 * 0.4},
      {[](auto groups) { return std::make_unique<DecoupledAdamWOptimizer>(groups, AdamWOptions{}); }, 0.5 * 0.4},
      {[](auto groups) { return std::make_unique<DecoupledSgdwOptimizer>(groups, SgdwOptions{}); }, 0.5 * 0.4}};
  for (const Row& row : rows) {
    const at::Tensor start = torch::tensor({1.0F, -1.0F, 2.0F, -2.0F}),
                     gradient = torch::tensor({1.0F, 1.0F, -1.0F, -1.0F});
    const at::Tensor plain = start.clone().requires_grad_(true), cautious = start.clone().requires_grad_(true);
    std::vector<at::Tensor> results;
    for (const auto& [param, decay] : {std::pair{plain, 0.0}, {cautious, 0.4}}) {
      std::unique_ptr<Optimizer> optimizer = row.make(OneGroup({param}, 0.1, decay));
      const std::string name = optimizer->name();
      optimizer = CautiousWeightDecay().WrapOptimizer(std::move(optimizer), state);
      EXPECT_EQ(optimizer->name(), name);
      optimizer->groups()[0].lr = 0.05;
      param.mutable_grad() = gradient.clone();
      optimizer->Step();
      EXPECT_EQ(optimizer->groups()[0].weight_decay, decay);
    }
    // Positive weights with positive gradients and negative ones with negative ones decay.
    const at::Tensor decayed = torch::tensor({1.0F, 0.0F, 0.0F, 1.0F});
    EXPECT_TRUE(torch::allclose(cautious, plain - row.decay * decayed * start));
  }
}

TEST(CautiousWeightDecay, RefusesOtherOptimizers) {
  const auto message = [](const OptimizerFactory& make, bool behind_sam) {
    TrainerOptions options = SmallRun();
    options.make_optimizer = make;
    if (behind_sam) options.algorithms.push_back(std::make_unique<Sam>(SamOptions{}));
    options.algorithms.push_back(std::make_unique<CautiousWeightDecay>());
    return std::string(Train(std::move(options)).status.message());
  };
  EXPECT_THAT(message(Adam(0.01), false),
              HasSubstr("cautious_weight_decay needs an optimizer with decoupled weight decay"));
  EXPECT_THAT(message(AdamW(0.01), true), HasSubstr("list it first"));
}

TEST(ZLoss, IsTheMeanSquareOfTheNormaliser) {
  const at::Tensor logits = torch::tensor({0.0F, 0.0F, 3.0F, 3.0F}).view({2, 2});
  const double first = std::pow(std::log(2.0), 2), second = std::pow(3 + std::log(2.0), 2);
  const auto value = [](const at::Tensor& x, const at::Tensor& targets) {
    return MeanSquareOfNormaliser(x, targets).item<double>();
  };
  EXPECT_NEAR(value(logits, torch::tensor({0, 1})), (first + second) / 2, 1e-5);
  EXPECT_NEAR(value(logits, torch::tensor({-100, 1})), second, 1e-5) << "of the places with a target";
  EXPECT_NEAR(value(logits, torch::ones({2, 2})), (first + second) / 2, 1e-5) << "dense targets";
  EXPECT_NEAR(value(logits.view({1, 2, 2}), torch::tensor({{-100, 1}})), second, 1e-5) << "[B, T, C]";
  const at::Tensor picture = torch::stack({logits, logits}, 0).transpose(1, 2).unsqueeze(3);  // [B, C, H, W]
  EXPECT_NEAR(value(picture, torch::tensor({0, -100, 0, -100}).view({2, 2, 1})), first, 1e-5) << "[B, C, H, W]";
  EXPECT_THAT([&] { value(logits, torch::zeros({3}, torch::kLong)); },
              testing::ThrowsMessage<c10::ValueError>(HasSubstr("z_loss: logits [2, 2] have no dimension of classes")));
}

TEST(ZLoss, IsAPartOfTheLossAndNotOfMicrobatching) {
  const auto losses = [](double weight, int64_t microbatch) {
    TrainerOptions options = SmallRun();
    options.device_train_microbatch_size = microbatch;
    if (weight > 0) options.algorithms.push_back(std::make_unique<ZLoss>(weight));
    return Train(std::move(options)).losses;
  };
  const std::vector<double> plain = losses(0, 0), with = losses(0.1, 0), parts = losses(0.1, 3);
  EXPECT_GT(with[0], plain[0] + 0.05);
  EXPECT_LT(with.back() - plain.back(), with[0] - plain[0]) << "it is trained on";
  for (size_t i = 0; i < with.size(); ++i) EXPECT_NEAR(parts[i], with[i], 2e-4);
}

TEST(ZLoss, RefusesToBeScaledByAnother) {
  for (const bool last : {false, true}) {
    TrainerOptions options = SmallRun();
    const auto add = [&](std::unique_ptr<Algorithm> algorithm) { options.algorithms.push_back(std::move(algorithm)); };
    if (!last) add(std::make_unique<ZLoss>());
    add(std::make_unique<MixUp>(MixUpOptions{.interpolate_loss = true}));
    if (last) add(std::make_unique<ZLoss>());
    const absl::Status status = Train(std::move(options)).status;
    EXPECT_EQ(status.ok(), last) << status;
    if (!last) EXPECT_THAT(std::string(status.message()), HasSubstr("z_loss: list it behind MixUp"));
  }
}

}  // namespace
}  // namespace composer
