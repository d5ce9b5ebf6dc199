// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/decoupled_adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/optim/optimizer_golden.h"

namespace composer {
namespace {

at::Tensor Param(at::IntArrayRef shape, double value) { return torch::full(shape, value).requires_grad_(true); }

TEST(DecoupledAdamWTest, AgreesWithComposer) {
  const auto make = [](std::vector<ParamGroup> groups, const nlohmann::json& args) {
    AdamWOptions options;
    options.beta1 = args["betas"][0];
    options.beta2 = args["betas"][1];
    options.eps = args["eps"];
    options.amsgrad = args.value("amsgrad", false);
    return std::make_unique<DecoupledAdamWOptimizer>(std::move(groups), options);
  };
  EXPECT_EQ(ReplayGolden("optimizers", "DecoupledAdamW", make, 1e-6), 3);
}

// Evaluates the header's formula in double. With 17 elements both the kernel's vector part and its tail run.
TEST(DecoupledAdamWTest, IsItsFormula) {
  const AdamWOptions options{0.8, 0.9, 1e-3, /*amsgrad=*/true};
  const double lr0 = 0.1, wd = 0.05;
  const at::Tensor param = Param({17}, 2.0);
  DecoupledAdamWOptimizer optimizer(OneGroup({param}, lr0, wd), options);
  double p = 2.0, m = 0, v = 0, vmax = 0;
  for (int t = 1; t <= 5; ++t) {
    const double lr = lr0 / t, g = t == 2 ? 10 : 0.5 * t;  // v falls after step 2, so that vmax matters
    param.mutable_grad() = torch::full({17}, g);
    optimizer.groups()[0].lr = lr;
    optimizer.Step();
    p *= 1 - lr / lr0 * wd;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    vmax = std::max(vmax, v);
    const double denominator = std::sqrt(vmax) / std::sqrt(1 - std::pow(options.beta2, t)) + options.eps;
    p -= lr / (1 - std::pow(options.beta1, t)) * m / denominator;
    EXPECT_LT((param.detach() - p).abs().max().item<double>(), 2e-6) << t;
  }
  EXPECT_GT(vmax, v);
}

TEST(DecoupledAdamWTest, DecayFollowsTheScheduleNotThePeak) {
  for (const double lr0 : {1e-3, 10.0}) {
    const at::Tensor param = Param({3}, 1.0);
    DecoupledAdamWOptimizer optimizer(OneGroup({param}, lr0, 0.1), {});
    param.mutable_grad() = torch::zeros({3});
    optimizer.groups()[0].lr = lr0 / 2;
    optimizer.Step();
    EXPECT_NEAR(param[0].item<double>(), 0.95, 1e-6);
    optimizer.groups()[0].lr = 0;
    optimizer.Step();
    EXPECT_NEAR(param[0].item<double>(), 0.95, 1e-6);
  }
}

TEST(DecoupledAdamWTest, WithoutALearningRateTheWholeDecayApplies) {
  const at::Tensor param = Param({3}, 1.0);
  DecoupledAdamWOptimizer optimizer(OneGroup({param}, 0, 0.1), {});
  param.mutable_grad() = torch::ones({3});
  optimizer.Step();
  EXPECT_NEAR(param[0].item<double>(), 0.9, 1e-6);
}

// b has its first gradient at the third step: its update must equal that of a separate parameter.
TEST(DecoupledAdamWTest, ParametersWithoutAGradientAreLeftAloneAndCountTheirOwnSteps) {
  const at::Tensor a = Param({5}, 1.0), b = Param({5}, 1.0), alone = Param({5}, 1.0);
  DecoupledAdamWOptimizer both(OneGroup({a, b}, 0.01, 0.1), {});
  DecoupledAdamWOptimizer single(OneGroup({alone}, 0.01, 0.1), {});
  for (int step = 0; step < 3; ++step) {
    a.mutable_grad() = torch::full({5}, 0.3);
    if (step == 2) b.mutable_grad() = alone.mutable_grad() = torch::full({5}, 0.7);
    both.Step();
    if (step < 2) {
      EXPECT_TRUE(torch::equal(b.detach(), torch::ones({5})));
    }
  }
  single.Step();
  EXPECT_TRUE(torch::equal(b, alone));
  EXPECT_EQ(both.state()[0].second[0].item<double>(), 3);
  EXPECT_EQ(both.state()[0].second[1].item<double>(), 1);
}

TEST(DecoupledAdamWTest, AGradientWithOtherStridesIsReadRight) {
  const at::Tensor param = torch::arange(6, torch::kFloat).reshape({2, 3}).requires_grad_(true);
  const at::Tensor plain = param.detach().clone().requires_grad_(true);
  const at::Tensor grad = torch::tensor({{1., 2., 3.}, {-4., 5., -6.}}, torch::kFloat);
  DecoupledAdamWOptimizer first(OneGroup({param}, 0.1, 0), {}), second(OneGroup({plain}, 0.1, 0), {});
  param.mutable_grad() = grad.t().contiguous().t();
  plain.mutable_grad() = grad;
  first.Step();
  second.Step();
  EXPECT_TRUE(torch::equal(param, plain));
}

TEST(DecoupledAdamWTest, GoesOnExactlyFromCopiedState) {
  const auto grad = [](int step) { return torch::linspace(-1, 1, 33) * (step + 1); };
  const at::Tensor a = Param({33}, 0.5);
  DecoupledAdamWOptimizer first(OneGroup({a}, 0.01, 0.01), {});
  for (int step = 0; step < 4; ++step) a.mutable_grad() = grad(step), first.Step();
  const at::Tensor b = a.detach().clone().requires_grad_(true);
  DecoupledAdamWOptimizer second(OneGroup({b}, 0.01, 0.01), {});
  CopyState(first, second);
  for (int step = 4; step < 8; ++step) {
    a.mutable_grad() = grad(step), first.Step();
    b.mutable_grad() = grad(step), second.Step();
  }
  EXPECT_TRUE(torch::equal(a, b));
}

TEST(DecoupledAdamWTest, StateIsThereBeforeTheFirstStepAndNamed) {
  DecoupledAdamWOptimizer optimizer(OneGroup({Param({2, 3}, 0)}, 0.1, 0), {0.9, 0.95, 1e-8, /*amsgrad=*/true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : optimizer.state()) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("group0/step", "p0/exp_avg", "p0/exp_avg_sq", "p0/max_exp_avg_sq"));
  EXPECT_EQ(optimizer.state()[1].second.sizes(), at::IntArrayRef({2, 3}));
}

TEST(DecoupledAdamWTest, RefusesBadOptionsAndMixedGroups) {
  EXPECT_EQ(Validate(AdamWOptions{1.0, 0.9}).message(), "betas: (1, 0.9), allowed are numbers in [0, 1)");
  EXPECT_EQ(Validate(AdamWOptions{0.9, 0.9, -1}).message(), "eps: -1, must be >= 0");
  EXPECT_THROW(DecoupledAdamWOptimizer(OneGroup({Param({1}, 0)}, 0.1, 0), AdamWOptions{1.0, 0.9}), c10::ValueError);
  const at::Tensor half = torch::zeros({2}, torch::kBFloat16).requires_grad_(true);
  EXPECT_THROW(DecoupledAdamWOptimizer(OneGroup({Param({1}, 0), half}, 0.1, 0), {}), c10::Error);
  EXPECT_THROW(DecoupledAdamWOptimizer(OneGroup({torch::zeros({4, 4}).slice(1, 0, 2)}, 0.1, 0), {}), c10::Error);
}

}  // namespace
}  // namespace composer
