// Tests the metrics of a job's YAML: the map under a model's train_metrics and eval_metrics.
// SPDX-License-Identifier: Apache-2.0
#include "job/job_metrics.h"

#include <torch/types.h>

#include <algorithm>

#include "tests/worker/named_keys.h"
#include "trainer/metrics/metric_by_name.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<NamedKeys>& Rows() {
  static const auto& rows = *new std::vector<NamedKeys>{
      {"BinaryAUROC", "BinaryAUROC", 0, {{"ignore_index", "-1"}}},
      {"BinaryF1Score", "BinaryF1Score", 0, {{"ignore_index", "-1"}}},
      {"BinaryMatthewsCorrCoef", "BinaryMatthewsCorrCoef", 0, {{"ignore_index", "-1"}}},
      {"CrossEntropy", "CrossEntropy", 0, {{"ignore_index", "0"}, {"batch_mean", "true"}}},
      {"Dice", "Dice", 1, {{"num_classes", "3"}, {"batch_mean", "true"}}},
      {"LanguageCrossEntropy", "LanguageCrossEntropy", 0, {{"ignore_index", "0"}}},
      {"LanguagePerplexity", "LanguagePerplexity", 0, {{"ignore_index", "0"}}},
      {"LossMetric", "LossMetric", 0, {{"loss_name", "mse_loss"}, {"batch_mean", "true"}}},
      {"MIoU", "MIoU", 1, {{"num_classes", "3"}, {"ignore_index", "0"}}},
      {"MaskedAccuracy", "MaskedAccuracy", 0, {{"ignore_index", "0"}}},
      {"MulticlassAccuracy", "MulticlassAccuracy", 0, {{"top_k", "1"}}},
      {"MulticlassConfusionMatrix", "MulticlassConfusionMatrix", 1, {{"num_classes", "3"}, {"ignore_index", "0"}}},
      {"MulticlassF1Score",
       "MulticlassF1Score",
       1,
       {{"num_classes", "3"}, {"average", "micro"}, {"ignore_index", "0"}}},
      {"MulticlassMatthewsCorrCoef", "MulticlassMatthewsCorrCoef", 1, {{"num_classes", "3"}, {"ignore_index", "0"}}},
      {"PearsonCorrCoef", "PearsonCorrCoef", 0, {}},
      {"SSIM", "SSIM", 1, {{"data_range", "2"}}},
      {"SpearmanCorrCoef", "SpearmanCorrCoef", 0, {}},
  };
  return rows;
}

std::vector<std::unique_ptr<Metric>> Made(const std::string& yaml, const PluginTables& plugins = {}) {
  std::optional<std::vector<MetricFactory>> factories;
  EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { factories = ReadMetrics(root, "eval_metrics", plugins); }), "")
      << yaml;
  std::vector<std::unique_ptr<Metric>> made;
  for (const MetricFactory& make : factories.value_or(std::vector<MetricFactory>())) made.push_back(make());
  return made;
}

std::string Error(const std::string& yaml, const PluginTables& plugins = {}) {
  return ErrorOf(yaml, [&](ConfigMap& root) { ReadMetrics(root, "eval_metrics", plugins); });
}

TEST(JobMetricsTest, TheTableIsThatOfTheMetricsButForThoseThatComeWithATask) {
  EXPECT_EQ(NamesOfRows(Rows()), MetricReaderNames());
  std::vector<std::string> names = MetricNames();
  std::erase(names, "BLEU");                                                                   // of icl_tasks
  std::erase_if(names, [](const std::string& name) { return name.starts_with("RecallAt"); });  // of `task: embedding`
  EXPECT_EQ(names, MetricReaderNames());
}

TEST(JobMetricsTest, EveryNameIsMade) {
  for (const NamedKeys& row : Rows()) {
    for (const std::string& yaml : {MinimalYaml("eval_metrics", row), YamlOf("eval_metrics", row.name, row.keys)}) {
      const auto made = Made(yaml);
      ASSERT_EQ(made.size(), 1u) << yaml;
      EXPECT_EQ(made[0]->name(), row.made);
    }
  }
}

TEST(JobMetricsTest, EveryKeyIsReadAndNoOther) {
  CheckKeys("eval_metrics", Rows(), [](ConfigMap& root) { ReadMetrics(root, "eval_metrics", {}); });
}

TEST(JobMetricsTest, KeysReachTheMetric) {
  // Two of three are right; the wrong one has the class to ignore.
  Batch batch;
  batch.targets = torch::tensor({1, 2, 0});
  const at::Tensor outputs = torch::eye(3).index_select(0, torch::tensor({1, 2, 1}));
  const auto value = [&](const std::string& keys) {
    auto metric = std::move(Made(absl::StrCat("{eval_metrics: {MaskedAccuracy: {", keys, "}}}"))[0]);
    metric->Update(outputs, batch);
    return metric->Compute();
  };
  EXPECT_NEAR(value(""), 2.0 / 3, 1e-6);
  EXPECT_NEAR(value("ignore_index: 0"), 1, 1e-6);
  const auto of = [&](const std::string& yaml) {
    auto metric = std::move(Made(absl::StrCat("{eval_metrics: ", yaml, "}"))[0]);
    metric->Update(outputs, batch);
    return std::pair(metric->name(), metric->Compute());
  };
  // Two rows of the unit matrix are the targets, the third is wrong in two of its three places.
  EXPECT_NEAR(of("{LossMetric: {loss_name: mse_loss}}").second, 2.0 / 9, 1e-6);
  // Before 0, whose logit is 0, comes class 1 alone.
  EXPECT_EQ(of("{MulticlassAccuracy: {top_k: 2}}"), (std::pair<std::string, double>("MulticlassAccuracyTop2", 1)));
}

TEST(JobMetricsTest, NotGivenIsNotNone) {
  std::optional<std::vector<MetricFactory>> factories;
  const auto read = [&](ConfigMap& root) { factories = ReadMetrics(root, "eval_metrics", {}); };
  EXPECT_EQ(ErrorOf("{}", read), "");
  EXPECT_EQ(factories, std::nullopt);
  EXPECT_EQ(ErrorOf("{eval_metrics: {}}", read), "");
  ASSERT_TRUE(factories.has_value());
  EXPECT_TRUE(factories->empty());
  EXPECT_EQ(Made("{eval_metrics: [MulticlassAccuracy, CrossEntropy]}").size(), 2u);
}

TEST(JobMetricsTest, MistakesAreNamedAndPluginsNamesComeAfter) {
  EXPECT_THAT(Error("{eval_metrics: {Acuracy: }}"),
              HasSubstr("`Acuracy` is not one of the 17 names that docs/configuration.md lists"));
  EXPECT_THAT(Error("{eval_metrics: {MulticlasAccuracy: }}"), HasSubstr("did you mean `MulticlassAccuracy`?"));
  EXPECT_THAT(Error("{eval_metrics: {MIoU: {num_classes: 0}}}"), HasSubstr("num_classes: must be at least 1, got 0"));
  EXPECT_THAT(Error("{eval_metrics: {Dice: {num_classes: 1}}}"), HasSubstr("Dice needs at least 2"));
  EXPECT_THAT(Error("{eval_metrics: {MulticlassF1Score: {num_classes: 2, average: mico}}}"), HasSubstr("`micro`"));
  PluginTables plugins;
  plugins.metrics["mine"] = {
      "libmine.so", [](PluginConfig&) -> MetricFactory { return [] { return *MetricByName("CrossEntropy"); }; }};
  EXPECT_EQ(Made("{eval_metrics: {mine: }}", plugins)[0]->name(), "CrossEntropy");
  EXPECT_THAT(Error("{eval_metrics: {mime: }}", plugins),
              HasSubstr("is not one of the 18 names that docs/configuration.md lists (did you mean `mine`?)"));
}

}  // namespace
}  // namespace composer
