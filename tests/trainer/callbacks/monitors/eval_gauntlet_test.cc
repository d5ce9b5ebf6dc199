// The gauntlet's scores are llm-foundry's: tests/golden/icl.json.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/eval_gauntlet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/trainer/callbacks/callback_fixture.h"

namespace composer {
namespace {

using nlohmann::json;

double WeightOf(const std::string& weighting, const std::string& task, const json& sizes) {
  double questions = 0;
  for (const auto& [label, size] : sizes.items()) questions += absl::StartsWith(label, task) ? size.get<double>() : 0;
  questions = std::max(questions, 1.0);
  return weighting == "EQUAL" ? 1 : weighting == "SAMPLE_SZ" ? questions : std::max(1.0, std::log2(questions));
}

EvalGauntletOptions GauntletOf(const json& golden) {
  const json& arguments = golden["arguments"];
  EvalGauntletOptions options;
  options.subtract_random_baseline = arguments.value("subtract_random_baseline", true);
  options.rescale_accuracy = arguments.value("rescale_accuracy", true);
  std::vector<std::string> names;
  for (const json& category : golden["categories"]) {
    names.push_back(category["name"]);
    options.categories.push_back({category["name"], {}});
    for (const json& benchmark : category["benchmarks"]) {
      const std::string task =
          absl::StrCat(benchmark["name"].get<std::string>(), "/", benchmark["num_fewshot"].get<int64_t>(), "-shot");
      options.categories.back().benchmarks.push_back(
          {task, benchmark["random_baseline"], WeightOf(arguments.value("weighting", "EQUAL"), task, golden["sizes"])});
    }
  }
  if (!arguments.contains("averages")) options.averages = {{"default_average", names}};
  const json averages = arguments.value("averages", json::object());
  for (const auto& [name, categories] : averages.items())
    options.averages.emplace_back(name, categories.get<std::vector<std::string>>());
  return options;
}

// A metric with a value.
class KnownAccuracy final : public Metric {
 public:
  explicit KnownAccuracy(double value) : value_(value) {}
  std::string name() const override { return "InContextLearningLMAccuracy"; }
  void Update(const Outputs& /*outputs*/, const Batch& /*batch*/) override {}
  absl::Span<double> sums() override { return {}; }
  double Compute() const override { return value_; }

 private:
  double value_;
};

class EvalGauntletTest : public CallbackTest {};

TEST_F(EvalGauntletTest, ScoresAreLlmFoundrys) {
  const json rows = json::parse(std::ifstream("tests/golden/icl.json"))["gauntlets"];
  ASSERT_EQ(rows.size(), 4U);
  for (const json& row : rows) {
    state_.evaluators.clear();
    for (const auto& [label, accuracy] : row["accuracies"].items()) {
      Evaluator& evaluator = state_.evaluators.emplace_back();
      evaluator.label = label;
      evaluator.metrics.push_back(std::make_unique<KnownAccuracy>(accuracy));
    }
    EvalGauntlet gauntlet(GauntletOf(row));
    ASSERT_TRUE(Fire(gauntlet, Event::kEvalAfterAll).ok());
    for (const auto& [name, score] : row["scores"].items())
      EXPECT_NEAR(logger_.Last(absl::StrCat("icl/metrics/eval_gauntlet/", name)), score.get<double>(), 1e-9)
          << name << row["arguments"];
  }
}

TEST_F(EvalGauntletTest, ACategoryWithoutAllItsTasksIsLeftOut) {
  const EvalGauntletOptions options = {
      .categories = {{"a", {{"x/0-shot", 0.5}, {"y/0-shot"}}}, {"b", {{"x/0-shot", 0.5}}}},
      .averages = {{"both", {"a", "b"}}, {"first", {"a"}}}};
  std::vector<std::string> missing;
  const auto scores = GauntletScores(options, {{"x/0-shot", 0.75}}, missing);
  using Score = std::pair<std::string, double>;
  EXPECT_THAT(scores, testing::ElementsAre(Score("b", 0.5), Score("both", 0.5), Score("first", 0)));
  EXPECT_THAT(missing, testing::ElementsAre("y/0-shot"));
}

}  // namespace
}  // namespace composer
