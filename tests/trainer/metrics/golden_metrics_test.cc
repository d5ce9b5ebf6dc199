// Compares values with those of mosaicml 0.32.1 and torchmetrics (tests/golden/metrics.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/f1_score.h"
#include "trainer/metrics/loss_metric.h"
#include "trainer/metrics/segmentation.h"

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

nlohmann::json Golden() {
  std::ifstream file("tests/golden/metrics.json");
  EXPECT_TRUE(file.good());
  return nlohmann::json::parse(file);
}

TEST(GoldenMetrics, Classification) {
  const nlohmann::json golden = Golden();
  const nlohmann::json& values = golden.at("values");
  const std::vector<GoldenBatch> batches = Batches(golden);
  const int64_t classes = golden.at("classes").get<int64_t>();
  const auto expect = [&](std::unique_ptr<Metric> metric, const char* key, bool mask) {
    EXPECT_NEAR(Value(*metric, batches, mask), values.at(key).get<double>(), 2e-6) << key;
  };
  expect(MakeMulticlassAccuracy(), "MulticlassAccuracy", false);
  expect(MakeTopAccuracy(3), "MulticlassAccuracy_top3", false);
  expect(MakeMaskedAccuracy(), "MaskedAccuracy", true);
  expect(MakeCrossEntropy(), "CrossEntropy_sample_mean", false);
  expect(MakeCrossEntropy(/*batch_mean=*/true), "CrossEntropy_batch_mean", false);
  expect(MakeLanguageCrossEntropy(), "LanguageCrossEntropy", true);
  expect(MakeLanguagePerplexity(), "LanguagePerplexity", true);
  expect(MakeMulticlassF1Score(classes), "MulticlassF1Score_macro", false);
  expect(MakeMulticlassF1Score(classes, F1Average::kMicro), "MulticlassAccuracy", false);
  expect(MakeMulticlassF1Score(classes, F1Average::kWeighted), "MulticlassF1Score_weighted", false);
}

// Returns batches of [samples, shape], with targets [samples, shape without the classes].
std::vector<GoldenBatch> Images(const nlohmann::json& batches, const std::vector<int64_t>& shape) {
  std::vector<GoldenBatch> result;
  for (const auto& batch : batches) {
    const auto samples = batch.at("samples").get<int64_t>();
    const auto logits = batch.at("logits").get<std::vector<float>>();
    const auto targets = batch.at("targets").get<std::vector<int64_t>>();
    result.push_back({torch::tensor(logits).view({samples, shape[0], shape[1], shape[2]}),
                      torch::tensor(targets, torch::kInt64).view({samples, shape[1], shape[2]})});
  }
  return result;
}

TEST(GoldenMetrics, Segmentation) {
  const nlohmann::json golden = Golden().at("segmentation");
  const auto shape = golden.at("shape").get<std::vector<int64_t>>();
  const std::vector<GoldenBatch> plain = Images(golden.at("batches"), shape);
  const std::vector<GoldenBatch> ignored = Images(golden.at("batches_with_ignored"), shape);
  const auto expect = [&](std::unique_ptr<Metric> metric, const char* key, const std::vector<GoldenBatch>& batches) {
    EXPECT_NEAR(Value(*metric, batches, false), golden.at("values").at(key).get<double>(), 2e-5) << key;
  };
  expect(MakeMIoU(4), "MIoU", ignored);
  expect(MakeDice(4), "Dice_one_batch", plain);
  expect(MakeDice(4, /*batch_mean=*/true), "Dice_batch_mean", plain);
  expect(MakeMulticlassF1Score(4, F1Average::kMacro, -1), "MulticlassF1Score_macro", ignored);
  expect(MakeMulticlassF1Score(4, F1Average::kMicro, -1), "MulticlassF1Score_micro", ignored);
  expect(MakeMulticlassF1Score(4, F1Average::kWeighted, -1), "MulticlassF1Score_weighted", ignored);
}

TEST(GoldenMetrics, Binary) {
  nlohmann::json golden = Golden().at("binary");
  golden["classes"] = 2;
  const std::vector<GoldenBatch> batches = Batches(golden);
  const nlohmann::json& values = golden.at("values");
  EXPECT_NEAR(Value(*MakeBinaryF1Score(), batches, false), values.at("BinaryF1Score").get<double>(), 1e-6);
  const auto loss = MakeLossMetric(BinaryCrossEntropyWithLogits, /*batch_mean=*/true);
  EXPECT_NEAR(Value(*loss, batches, false), values.at("LossMetric_bce_batch_mean").get<double>(), 1e-6);
}

}  // namespace
}  // namespace composer
