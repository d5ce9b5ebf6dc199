// SPDX-License-Identifier: Apache-2.0
#include "job/job_metrics.h"

#include "job/named_reader.h"
#include "trainer/loss/classifier_loss.h"
#include "trainer/metrics/metric_by_name.h"

namespace composer {
namespace {

// The keys that a metric accepts.
enum Keys : unsigned {
  kNone = 0,
  kNumClasses = 1,
  kIgnoreIndex = 2,
  kAverage = 4,
  kBatchMean = 8,
  kTopK = 16,
  kDataRange = 32,
  kLossName = 64,
};

// Returns the mean of a classifier's loss.
LossFunction ReadLoss(ConfigMap& config) {
  const std::vector<std::string> names = ClassifierLossNames();
  const std::vector<absl::string_view> allowed(names.begin(), names.end());
  return ClassifierLossByName(config.Choice("loss_name", allowed, "soft_cross_entropy"))->mean;
}

MetricOptions ReadOptions(ConfigMap& config, unsigned keys) {
  MetricOptions options;
  if (keys & kNumClasses) options.num_classes = config.RequiredInt("num_classes", {.min = 1});
  if ((keys & kIgnoreIndex) && config.Has("ignore_index")) options.ignore_index = config.RequiredInt("ignore_index");
  if (keys & kAverage) {
    const std::string average = config.Choice("average", {"macro", "micro", "weighted"}, "macro");
    options.average = average == "macro"   ? F1Average::kMacro
                      : average == "micro" ? F1Average::kMicro
                                           : F1Average::kWeighted;
  }
  if (keys & kBatchMean) options.batch_mean = config.Bool("batch_mean", false);
  if (keys & kTopK) options.top_k = config.Int("top_k", 1, {.min = 1});
  if (keys & kDataRange) options.data_range = config.RequiredDouble("data_range", {.min = 1e-6});
  if (keys & kLossName) options.loss = ReadLoss(config);
  return options;
}

MetricFactory Read(absl::string_view name, unsigned keys, ConfigMap config) {
  const MetricOptions options = ReadOptions(config, keys);
  if (const absl::Status status = MetricByName(name, options).status(); !status.ok())
    config.Reject("", status.message());
  return [=] { return *MetricByName(name, options); };
}

constexpr NamedReader<MetricFactory> kMetrics[] = {
    {"BinaryAUROC", [](ConfigMap config) { return Read("BinaryAUROC", kIgnoreIndex, config); }},
    {"BinaryF1Score", [](ConfigMap config) { return Read("BinaryF1Score", kIgnoreIndex, config); }},
    {"BinaryMatthewsCorrCoef", [](ConfigMap config) { return Read("BinaryMatthewsCorrCoef", kIgnoreIndex, config); }},
    {"CrossEntropy", [](ConfigMap config) { return Read("CrossEntropy", kIgnoreIndex | kBatchMean, config); }},
    {"Dice", [](ConfigMap config) { return Read("Dice", kNumClasses | kBatchMean, config); }},
    {"LanguageCrossEntropy", [](ConfigMap config) { return Read("LanguageCrossEntropy", kIgnoreIndex, config); }},
    {"LanguagePerplexity", [](ConfigMap config) { return Read("LanguagePerplexity", kIgnoreIndex, config); }},
    {"LossMetric", [](ConfigMap config) { return Read("LossMetric", kLossName | kBatchMean, config); }},
    {"MIoU", [](ConfigMap config) { return Read("MIoU", kNumClasses | kIgnoreIndex, config); }},
    {"MaskedAccuracy", [](ConfigMap config) { return Read("MaskedAccuracy", kIgnoreIndex, config); }},
    {"MulticlassAccuracy", [](ConfigMap config) { return Read("MulticlassAccuracy", kTopK, config); }},
    {"MulticlassConfusionMatrix",
     [](ConfigMap config) { return Read("MulticlassConfusionMatrix", kNumClasses | kIgnoreIndex, config); }},
    {"MulticlassF1Score",
     [](ConfigMap config) { return Read("MulticlassF1Score", kNumClasses | kAverage | kIgnoreIndex, config); }},
    {"MulticlassMatthewsCorrCoef",
     [](ConfigMap config) { return Read("MulticlassMatthewsCorrCoef", kNumClasses | kIgnoreIndex, config); }},
    {"PearsonCorrCoef", [](ConfigMap config) { return Read("PearsonCorrCoef", kNone, config); }},
    {"SSIM", [](ConfigMap config) { return Read("SSIM", kDataRange, config); }},
    {"SpearmanCorrCoef", [](ConfigMap config) { return Read("SpearmanCorrCoef", kNone, config); }},
};

}  // namespace

std::vector<std::string> MetricReaderNames() { return NamesOf(kMetrics); }

std::optional<std::vector<MetricFactory>> ReadMetrics(ConfigMap config, absl::string_view key,
                                                      const PluginTables& plugins) {
  if (!config.Has(key)) return std::nullopt;
  return ReadNamedMaps<MetricFactory>(config, key, kMetrics, plugins.metrics);
}

}  // namespace composer
