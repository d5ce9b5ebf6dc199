// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

Batch Targets(at::Tensor targets) {
  Batch batch;
  batch.targets = std::move(targets);
  batch.num_samples = batch.targets.size(0);
  return batch;
}

MetricList All() {
  MetricList metrics;
  metrics.push_back(MakeMulticlassAccuracy());
  metrics.push_back(MakeMaskedAccuracy());
  metrics.push_back(MakeCrossEntropy());
  metrics.push_back(MakeLanguageCrossEntropy());
  metrics.push_back(MakeLanguagePerplexity());
  return metrics;
}

TEST(Accuracy, CountsRightPredictions) {
  const at::Tensor outputs = torch::tensor({{1.f, 3.f, 2.f}, {5.f, 5.f, 0.f}, {0.f, 1.f, 2.f}});
  const auto metric = MakeMulticlassAccuracy();
  EXPECT_EQ(metric->name(), "MulticlassAccuracy");
  EXPECT_TRUE(std::isnan(metric->Compute()));
  metric->Update(outputs, Targets(torch::tensor({1, 0, 1}, torch::kInt64)));  // of equals the first counts
  EXPECT_DOUBLE_EQ(metric->Compute(), 2.0 / 3);
  metric->Update(outputs.to(torch::kBFloat16), Targets(torch::tensor({0, 1, 2}, torch::kInt64)));
  EXPECT_DOUBLE_EQ(metric->Compute(), 3.0 / 6);
  EXPECT_EQ(metric->sums()[0], 3);
  metric->Reset();
  metric->Update(outputs, Targets(torch::tensor({{0.1f, 0.9f, 0.f}, {0.f, 1.f, 0.f}, {0.f, 0.f, 1.f}})));
  EXPECT_DOUBLE_EQ(metric->Compute(), 2.0 / 3);
}

TEST(Accuracy, LeavesOutMaskedTargets) {
  const at::Tensor outputs = torch::tensor({{{1.f, 3.f}, {5.f, 4.f}}, {{0.f, 1.f}, {2.f, 0.f}}});
  const at::Tensor targets = torch::tensor({{1, -100}, {0, 0}}, torch::kInt64);
  const auto masked = MakeMaskedAccuracy();
  masked->Update(outputs, Targets(targets));
  EXPECT_DOUBLE_EQ(masked->Compute(), 2.0 / 3);
  const auto custom = MakeMaskedAccuracy(0);
  custom->Update(outputs, Targets(targets));
  EXPECT_DOUBLE_EQ(custom->Compute(), 1.0 / 2);
  EXPECT_THROW(masked->Update(outputs, Targets(targets.flatten())), c10::ValueError);
}

TEST(CrossEntropy, HasItsClosedForm) {
  const at::Tensor outputs = torch::tensor({{0.f, std::log(3.f)}, {0.f, 0.f}});
  const auto metric = MakeCrossEntropy();
  metric->Update(outputs, Targets(torch::tensor({1, 0}, torch::kInt64)));
  EXPECT_NEAR(metric->Compute(), (std::log(4.0 / 3) + std::log(2.0)) / 2, 1e-6);
  metric->Reset();
  metric->Update(outputs, Targets(torch::tensor({{0.5f, 0.5f}, {1.f, 0.f}})));
  EXPECT_NEAR(metric->Compute(), (0.5 * std::log(4.0) + 0.5 * std::log(4.0 / 3) + std::log(2.0)) / 2, 1e-6);
  const auto perplexity = MakeLanguagePerplexity();
  perplexity->Update(torch::zeros({2, 3, 8}), Targets(torch::zeros({2, 3}, torch::kInt64)));
  EXPECT_NEAR(perplexity->Compute(), 8, 1e-5);
}

// Sums over pieces of any size are those of the whole.
TEST(Metrics, AreExactOverAnySplit) {
  torch::manual_seed(3);
  const at::Tensor outputs = torch::randn({11, 4});
  at::Tensor targets = torch::randint(4, {11}, torch::kInt64);
  targets[2] = targets[9] = -100;
  MetricList whole = All(), pieces = All(), empty = All();
  for (size_t i = 0; i < whole.size(); ++i) {
    whole[i]->Update(outputs, Targets(targets));
    for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 1}, {1, 1}, {1, 8}, {8, 11}}) {
      pieces[i]->Update(outputs.slice(0, begin, end), Targets(targets.slice(0, begin, end)));
    }
    EXPECT_NEAR(pieces[i]->Compute(), whole[i]->Compute(), 1e-6) << whole[i]->name();
    EXPECT_EQ(pieces[i]->sums()[1], whole[i]->sums()[1]);
    empty[i]->Update(outputs.slice(0, 0, 0), Targets(targets.slice(0, 0, 0)));
    EXPECT_TRUE(std::isnan(empty[i]->Compute())) << whole[i]->name();
  }
}

// The tensor path (GPU) must agree with the plain loop; int32 targets take it on CPU.
TEST(Metrics, TensorPathAgreesWithTheLoop) {
  torch::manual_seed(4);
  const at::Tensor outputs = torch::randn({50, 7});
  at::Tensor targets = torch::randint(7, {50}, torch::kInt64);
  targets[5] = -100;
  const auto loop = MakeMaskedAccuracy(), tensor = MakeMaskedAccuracy();
  loop->Update(outputs, Targets(targets));
  tensor->Update(outputs, Targets(targets.to(torch::kInt32)));
  EXPECT_EQ(loop->sums(), tensor->sums());
  MetricSums sums;
  sums.AddTensor(torch::tensor({1.0, 2.0}, torch::kDouble));
  sums.AddTensor(torch::tensor({2, 2}, torch::kInt64));
  EXPECT_EQ(sums.Ratio(), 0.75);
}

}  // namespace
}  // namespace composer
