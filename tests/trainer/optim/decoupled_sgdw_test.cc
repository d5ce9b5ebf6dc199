// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/decoupled_sgdw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/optim/optimizer_golden.h"

namespace composer {
namespace {

at::Tensor SgdwParam(at::IntArrayRef shape, double value) { return torch::full(shape, value).requires_grad_(true); }

TEST(DecoupledSGDWTest, AgreesWithComposer) {
  const auto make = [](std::vector<ParamGroup> groups, const nlohmann::json& args) {
    const SgdwOptions options{args["momentum"], args.value("dampening", 0.0), args.value("nesterov", false)};
    return std::make_unique<DecoupledSgdwOptimizer>(std::move(groups), options);
  };
  EXPECT_EQ(ReplayGolden("optimizers", "DecoupledSGDW", make, 1e-6), 4);
}

TEST(DecoupledSGDWTest, IsItsFormula) {
  for (const SgdwOptions& options :
       {SgdwOptions{}, SgdwOptions{0.9}, SgdwOptions{0.9, 0.25}, SgdwOptions{0.9, 0, true}}) {
    const double lr0 = 0.1, wd = 0.05;
    const at::Tensor param = SgdwParam({17}, 2.0);
    DecoupledSgdwOptimizer optimizer(OneGroup({param}, lr0, wd), options);
    double p = 2.0, buffer = 0;
    for (int t = 1; t <= 5; ++t) {
      const double lr = lr0 / t, g = 0.5 * t;
      param.mutable_grad() = torch::full({17}, g);
      optimizer.groups()[0].lr = lr;
      optimizer.Step();
      buffer = t == 1 || options.momentum == 0 ? g : options.momentum * buffer + (1 - options.dampening) * g;
      p *= 1 - lr / lr0 * wd;
      p -= lr * (options.nesterov ? g + options.momentum * buffer : buffer);
      EXPECT_LT((param.detach() - p).abs().max().item<double>(), 2e-6) << t;
    }
  }
}

TEST(DecoupledSGDWTest, WithoutALearningRateTheWholeDecayApplies) {
  const at::Tensor param = SgdwParam({3}, 1.0);
  DecoupledSgdwOptimizer optimizer(OneGroup({param}, 0, 0.1), {});
  param.mutable_grad() = torch::ones({3});
  optimizer.Step();
  EXPECT_NEAR(param[0].item<double>(), 0.9, 1e-6);
}

// With dampening the first update differs from the others, for each parameter at its own time.
TEST(DecoupledSGDWTest, EveryParameterHasItsOwnFirstStep) {
  const SgdwOptions options{0.9, 0.5};
  const at::Tensor a = SgdwParam({5}, 1.0), b = SgdwParam({5}, 1.0), alone = SgdwParam({5}, 1.0);
  DecoupledSgdwOptimizer both(OneGroup({a, b}, 0.01, 0.1), options), single(OneGroup({alone}, 0.01, 0.1), options);
  for (int step = 0; step < 3; ++step) {
    a.mutable_grad() = torch::full({5}, 0.3);
    if (step >= 1) b.mutable_grad() = alone.mutable_grad() = torch::full({5}, 0.7);
    both.Step();
    if (step >= 1) single.Step();
    if (step == 0) {
      EXPECT_TRUE(torch::equal(b.detach(), torch::ones({5})));
    }
  }
  EXPECT_TRUE(torch::equal(b, alone));
}

TEST(DecoupledSGDWTest, GoesOnExactlyFromCopiedState) {
  const auto grad = [](int step) { return torch::linspace(-1, 1, 33) * (step + 1); };
  const SgdwOptions options{0.9, 0.5};
  for (const int saved_after : {0, 1, 3}) {
    const at::Tensor a = SgdwParam({33}, 0.5);
    DecoupledSgdwOptimizer first(OneGroup({a}, 0.01, 0.01), options);
    for (int step = 0; step < saved_after; ++step) a.mutable_grad() = grad(step), first.Step();
    const at::Tensor b = a.detach().clone().requires_grad_(true);
    DecoupledSgdwOptimizer second(OneGroup({b}, 0.01, 0.01), options);
    CopyState(first, second);
    for (int step = saved_after; step < 5; ++step) {
      a.mutable_grad() = grad(step), first.Step();
      b.mutable_grad() = grad(step), second.Step();
    }
    EXPECT_TRUE(torch::equal(a, b)) << saved_after;
  }
}

TEST(DecoupledSGDWTest, StateIsThereBeforeTheFirstStepAndNamed) {
  DecoupledSgdwOptimizer plain(OneGroup({SgdwParam({2, 3}, 0)}, 0.1, 0), {});
  EXPECT_TRUE(plain.state().empty());
  const auto names = [](const SgdwOptions& options) {
    DecoupledSgdwOptimizer optimizer(OneGroup({SgdwParam({2, 3}, 0)}, 0.1, 0), options);
    std::vector<std::string> result;
    for (const auto& [name, tensor] : optimizer.state()) result.push_back(name);
    return result;
  };
  EXPECT_THAT(names({0.9}), ::testing::ElementsAre("p0/momentum_buffer"));
  EXPECT_THAT(names({0.9, 0.5}), ::testing::ElementsAre("group0/started", "p0/momentum_buffer"));
}

TEST(DecoupledSGDWTest, RefusesBadOptions) {
  EXPECT_EQ(Validate(SgdwOptions{-1}).message(), "momentum: -1, must be >= 0");
  EXPECT_EQ(Validate(SgdwOptions{0.9, 0.1, true}).message(),
            "nesterov: needs momentum > 0 (is 0.9) and dampening 0 (is 0.1)");
  EXPECT_THROW(DecoupledSgdwOptimizer(OneGroup({SgdwParam({1}, 0)}, 0.1, 0), SgdwOptions{-1}), c10::ValueError);
}

}  // namespace
}  // namespace composer
