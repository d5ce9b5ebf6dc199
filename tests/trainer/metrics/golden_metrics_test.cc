// Values that mosaicml 0.32.1 and torchmetrics computed (tests/golden/metrics.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {
namespace {

struct GoldenBatch {
  at::Tensor logits;
  at::Tensor targets;
};

std::vector<GoldenBatch> Batches(const nlohmann::json& golden) {
  std::vector<GoldenBatch> batches;
  const int64_t classes = golden.at("classes").get<int64_t>();
  for (const auto& batch : golden.at("batches")) {
    const auto logits = batch.at("logits").get<std::vector<float>>();
    const auto targets = batch.at("targets").get<std::vector<int64_t>>();
    batches.push_back({torch::tensor(logits).view({-1, classes}), torch::tensor(targets, torch::kInt64)});
  }
  return batches;
}

double Value(Metric& metric, const std::vector<GoldenBatch>& batches, bool mask) {
  for (const GoldenBatch& golden : batches) {
    Batch batch;
    batch.targets = golden.targets.clone();
    batch.num_samples = batch.targets.size(0);
    if (mask) batch.targets.slice(0, 1, batch.num_samples, 3).fill_(-100);
    metric.Update(golden.logits, batch);
  }
  return metric.Compute();
}

TEST(Metrics, EqualComposers) {
  std::ifstream file("tests/golden/metrics.json");
  ASSERT_TRUE(file.good());
  const nlohmann::json golden = nlohmann::json::parse(file);
  const nlohmann::json& values = golden.at("values");
  const std::vector<GoldenBatch> batches = Batches(golden);
  const auto expect = [&](std::unique_ptr<Metric> metric, const char* key, bool mask) {
    EXPECT_NEAR(Value(*metric, batches, mask), values.at(key).get<double>(), 2e-6) << key;
  };
  expect(MakeMulticlassAccuracy(), "MulticlassAccuracy", false);
  expect(MakeCrossEntropy(), "CrossEntropy_sample_mean", false);
  expect(MakeLanguageCrossEntropy(), "LanguageCrossEntropy", true);
  expect(MakeLanguagePerplexity(), "LanguagePerplexity", true);
}

}  // namespace
}  // namespace composer
