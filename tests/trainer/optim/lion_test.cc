// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/lion.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/optim/optimizer_golden.h"

namespace composer {
namespace {

// Evaluates the header's formula in double. Gradients change sign, so that both betas matter: with a single one for
// both, the second update would go the other way.
TEST(LionTest, IsItsFormula) {
  const LionOptions options{0.7, 0.95};
  const double wd = 0.3;
  const at::Tensor param = torch::full({17}, 2.0).requires_grad_(true);
  LionOptimizer optimizer(OneGroup({param}, 0.1, wd), options);
  double p = 2.0, m = 0;
  const double grads[] = {1.0, -0.3, 0.02, -0.4, 0.08, -0.01};
  for (int t = 0; t < 6; ++t) {
    const double lr = 0.1 / (t + 1), g = grads[t];
    param.mutable_grad() = torch::full({17}, g);
    optimizer.groups()[0].lr = lr;
    optimizer.Step();
    const double c = options.beta1 * m + (1 - options.beta1) * g;
    p = p * (1 - lr * wd) - lr * (c > 0 ? 1 : -1);
    m = options.beta2 * m + (1 - options.beta2) * g;
    EXPECT_LT((param.detach() - p).abs().max().item<double>(), 2e-6) << t;
  }
  EXPECT_NEAR(optimizer.state()[0].second[0].item<double>(), m, 1e-7);
}

TEST(LionTest, WithoutAGradientSignNothingMovesButTheDecay) {
  const at::Tensor param = torch::ones({3}).requires_grad_(true);
  LionOptimizer optimizer(OneGroup({param}, 0.1, 0.5), {});
  param.mutable_grad() = torch::zeros({3});
  optimizer.Step();
  EXPECT_NEAR(param[0].item<double>(), 0.95, 1e-7);
}

TEST(LionTest, RefusesBadOptions) {
  EXPECT_EQ(Validate(LionOptions{1.0, 0.9}).message(), "betas: (1, 0.9), allowed are numbers in [0, 1)");
  const at::Tensor param = torch::zeros({1}).requires_grad_(true);
  EXPECT_THROW(LionOptimizer(OneGroup({param}, 0.1, 0), LionOptions{0.9, -1}), c10::ValueError);
}

}  // namespace
}  // namespace composer
