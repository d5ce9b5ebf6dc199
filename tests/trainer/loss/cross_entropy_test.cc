// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace composer {
namespace {

TEST(SoftCrossEntropy, HasItsClosedForm) {
  // The softmax of (0, log 3) is (1/4, 3/4).
  const at::Tensor logits = torch::tensor({{0.0, std::log(3.0)}, {0.0, 0.0}}, torch::kDouble);
  EXPECT_NEAR(SoftCrossEntropy(logits, torch::tensor({1, 0}, torch::kInt64)).item<double>(),
              (std::log(4.0 / 3) + std::log(2.0)) / 2, 1e-12);
  EXPECT_NEAR(SoftCrossEntropy(logits, torch::tensor({-100, 0}, torch::kInt64)).item<double>(), std::log(2.0), 1e-12);
  const at::Tensor soft = torch::tensor({{0.5, 0.5}, {0.0, 2.0}}, torch::kDouble);
  EXPECT_NEAR(SoftCrossEntropy(logits, soft).item<double>(),
              (0.5 * std::log(4.0) + 0.5 * std::log(4.0 / 3) + 2 * std::log(2.0)) / 3, 1e-12);
}

TEST(SoftCrossEntropy, OneHotTargetsEqualIndexes) {
  torch::manual_seed(1);
  const at::Tensor logits = torch::randn({6, 5}, torch::kDouble);
  const at::Tensor targets = torch::randint(5, {6}, torch::kInt64);
  const at::Tensor one_hot = torch::one_hot(targets, 5).to(torch::kDouble);
  EXPECT_NEAR(SoftCrossEntropy(logits, one_hot).item<double>(), SoftCrossEntropy(logits, targets).item<double>(),
              1e-12);
  EXPECT_THROW(SoftCrossEntropy(logits, torch::ones({6, 4}, torch::kDouble)), c10::ValueError);
}

TEST(NextTokenCrossEntropy, IsTheMeanOverTokens) {
  const at::Tensor uniform = torch::zeros({2, 3, 8}, torch::kDouble);
  EXPECT_NEAR(NextTokenCrossEntropy(uniform, torch::zeros({2, 3}, torch::kInt64)).item<double>(), std::log(8.0), 1e-12);
  at::Tensor logits = uniform.clone();
  logits[0][1][5] = std::log(7.0);  // 7 / (7 + 7): half
  const at::Tensor targets = torch::tensor({{-100, 5, -100}, {-100, -100, 2}}, torch::kInt64);
  EXPECT_NEAR(NextTokenCrossEntropy(logits, targets).item<double>(), (std::log(2.0) + std::log(8.0)) / 2, 1e-12);
  EXPECT_THROW(NextTokenCrossEntropy(uniform, torch::zeros({2, 4}, torch::kInt64)), c10::ValueError);
}

}  // namespace
}  // namespace composer
