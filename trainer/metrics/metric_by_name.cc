// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/metric_by_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/auroc.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/confusion_matrix.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/recall_at_k.h"
#include "trainer/metrics/segmentation.h"
#include "trainer/metrics/ssim.h"

namespace composer {
namespace {

constexpr int64_t kUsualIgnoreIndex = -100;

int64_t IgnoreIndex(const MetricOptions& options) { return options.ignore_index.value_or(kUsualIgnoreIndex); }

struct MetricRow {
  const char* name;
  int64_t min_classes;  // 0 means that it needs no num_classes
  std::unique_ptr<Metric> (*make)(const MetricOptions& options);
};

constexpr MetricRow kMetrics[] = {
    {"BLEU", 0, [](const MetricOptions&) { return MakeBleu(); }},
    {"BinaryAUROC", 0, [](const MetricOptions& options) { return MakeBinaryAUROC(options.ignore_index); }},
    {"BinaryF1Score", 0, [](const MetricOptions& options) { return MakeBinaryF1Score(options.ignore_index); }},
    {"BinaryMatthewsCorrCoef", 0,
     [](const MetricOptions& options) { return MakeBinaryMatthewsCorrCoef(options.ignore_index); }},
    {"CrossEntropy", 0,
     [](const MetricOptions& options) { return MakeCrossEntropy(options.batch_mean, IgnoreIndex(options)); }},
    {"Dice", 2, [](const MetricOptions& options) { return MakeDice(options.num_classes, options.batch_mean); }},
    {"LanguageCrossEntropy", 0,
     [](const MetricOptions& options) { return MakeLanguageCrossEntropy(IgnoreIndex(options)); }},
    {"LanguagePerplexity", 0,
     [](const MetricOptions& options) { return MakeLanguagePerplexity(IgnoreIndex(options)); }},
    {"LossMetric", 0, [](const MetricOptions& options) { return MakeLossMetric(options.loss, options.batch_mean); }},
    {"MIoU", 1,
     [](const MetricOptions& options) { return MakeMIoU(options.num_classes, options.ignore_index.value_or(-1)); }},
    {"MaskedAccuracy", 0, [](const MetricOptions& options) { return MakeMaskedAccuracy(IgnoreIndex(options)); }},
    {"MulticlassAccuracy", 0,
     [](const MetricOptions& options) {
       return options.top_k == 1 ? MakeMulticlassAccuracy() : MakeTopAccuracy(options.top_k);
     }},
    {"MulticlassConfusionMatrix", 2,
     [](const MetricOptions& options) -> std::unique_ptr<Metric> {
       return MakeMulticlassConfusionMatrix(options.num_classes, options.ignore_index);
     }},
    {"MulticlassF1Score", 1,
     [](const MetricOptions& options) {
       return MakeMulticlassF1Score(options.num_classes, options.average, options.ignore_index);
     }},
    {"MulticlassMatthewsCorrCoef", 1,
     [](const MetricOptions& options) {
       return MakeMulticlassMatthewsCorrCoef(options.num_classes, options.ignore_index);
     }},
    {"PearsonCorrCoef", 0, [](const MetricOptions&) { return MakePearsonCorrCoef(); }},
    {"RecallAt1", 0, [](const MetricOptions&) { return MakeRecallAtK(1); }},
    {"RecallAt10", 0, [](const MetricOptions&) { return MakeRecallAtK(10); }},
    {"RecallAt5", 0, [](const MetricOptions&) { return MakeRecallAtK(5); }},
    {"SSIM", 0, [](const MetricOptions& options) { return MakeSsim(options.data_range); }},
    {"SpearmanCorrCoef", 0, [](const MetricOptions&) { return MakeSpearmanCorrCoef(); }},
};

}  // namespace

std::vector<std::string> MetricNames() {
  std::vector<std::string> names;
  for (const MetricRow& row : kMetrics) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Metric>> MetricByName(absl::string_view name, const MetricOptions& options) {
  for (const MetricRow& row : kMetrics) {
    if (name != row.name) continue;
    if (options.num_classes < row.min_classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_classes: ", options.num_classes, ", ", name, " needs at least ", row.min_classes));
    }
    if (name == "LossMetric" && !options.loss) {
      return absl::InvalidArgumentError("loss: required by LossMetric");
    }
    if (name == "SSIM" && options.data_range <= 0) {
      return absl::InvalidArgumentError("data_range: required by SSIM: the largest value less the smallest, above 0");
    }
    return row.make(options);
  }
  const std::vector<std::string> names = MetricNames();
  return absl::InvalidArgumentError(absl::StrCat("no metric is called `", name, "`; there are ",
                                                 absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

}  // namespace composer
