// Compares the averages of 30 batches, and evaluations with them, with those of mosaicml 0.32.1's EMA
// (tests/golden/ema.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/trainer/algorithms/ema_runs.h"
#include "trainer/optim/decoupled_sgdw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

EmaArguments ArgumentsOf(const Json& json) {
  const auto time = [&](const char* key) -> std::optional<Time> {
    if (!json.contains(key) || json[key].is_null()) return std::nullopt;
    return ParseTime(json[key].get<std::string>()).value();
  };
  EmaArguments arguments;
  arguments.half_life = time("half_life");
  if (json.contains("smoothing")) arguments.smoothing = json["smoothing"].get<double>();
  arguments.ema_start = time("ema_start").value_or(arguments.ema_start);
  arguments.update_interval = time("update_interval");
  return arguments;
}

std::vector<double> Flat(const std::vector<at::Tensor>& tensors) {
  std::vector<double> values;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor flat = tensor.detach().flatten().to(at::kDouble);
    values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
  }
  return values;
}

std::vector<double> Averages(const Ema& ema) {
  std::vector<at::Tensor> tensors;
  for (const KeptTensor& kept : ema.tensors()) {
    if (kept.tensor.is_floating_point()) tensors.push_back(kept.tensor);
  }
  return Flat(tensors);
}

// The runs differ by the rounding of 30 steps of SGD and of the updates: s w_ema + (1 - s) w there, w_ema + (1 - s)(w -
// w_ema) here.
void ExpectNear(const std::vector<double>& ours, const std::vector<double>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    difference += (ours[i] - expected[i]) * (ours[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(difference, 4e-12 * norm);
}

struct Watched {
  std::map<std::string, std::vector<double>> averages;  // by time: "7ba", "2ep"
  std::vector<double> entropies;                        // of evaluations
};

class Entropies final : public LoggerDestination {
 public:
  explicit Entropies(std::vector<double>* found) : found_(found) {}
  std::string name() const override { return "Entropies"; }
  absl::Status Write(const MetricRecord& record) override {
    for (const MetricValue& metric : record.metrics) {
      if (metric.name == "metrics/eval/CrossEntropy") found_->push_back(metric.value);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<double>* found_;
};

TrainerOptions GoldenRun(const Json& run, Watched& watched) {
  TrainerOptions options = SmallRun({.batch_norm = run["batch_norm"], .hidden = 4});
  options.train.dataset = MakeRows(40);
  options.train.shuffle = false;
  options.max_duration = Time::Epochs(6);
  options.make_optimizer = [](Model& model) {
    auto groups = MakeTestAdamW(model, 0.5)->groups();
    groups[0].weight_decay = 0;
    return std::make_unique<DecoupledSgdwOptimizer>(std::move(groups), SgdwOptions{});
  };
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(24, 8, 4, 0, 3);
  evaluator.batch_size = 8;
  evaluator.metric_names = {"CrossEntropy"};
  options.evaluators.push_back(evaluator);
  options.loggers.push_back(std::make_unique<Entropies>(&watched.entropies));
  const Ema* ema = &AddEma(options, ArgumentsOf(run["arguments"]));
  AddCallback(options, {Event::kBatchEnd},
              [=, &watched](State& s) { watched.averages[absl::StrCat(s.timestamp.batch, "ba")] = Averages(*ema); });
  AddCallback(options, {Event::kEpochEnd},
              [=, &watched](State& s) { watched.averages[absl::StrCat(s.timestamp.epoch, "ep")] = Averages(*ema); });
  return options;
}

TEST(GoldenEma, HasTheAveragesOfMosaicml) {
  const Json golden = Json::parse(ReadFile("tests/golden/ema.json").value());
  ASSERT_EQ(golden["runs"].size(), 8u);
  for (const Json& run : golden["runs"]) {
    SCOPED_TRACE(run["arguments"].dump());
    Watched watched;
    const RunResult result = Train(GoldenRun(run, watched));
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(run["averages"].size(), 10u);
    size_t begun = 0;
    for (const Json& average : run["averages"]) {
      SCOPED_TRACE(average["after"].get<std::string>());
      const auto expected = average["values"].get<std::vector<double>>();
      ExpectNear(watched.averages.at(average["after"]), expected);
      begun += expected.empty() ? 0 : 1;
    }
    EXPECT_GE(begun, 2u);
    ASSERT_EQ(watched.entropies.size(), run["eval"].size());
    for (size_t i = 0; i < watched.entropies.size(); ++i)
      EXPECT_NEAR(watched.entropies[i], run["eval"][i].get<double>(), 3e-6) << "evaluation " << i;
    std::vector<at::Tensor> weights;
    for (const auto& [name, tensor] : result.tensors) {
      if (name.find("running") == std::string::npos && tensor.is_floating_point()) weights.push_back(tensor);
    }
    ExpectNear(Flat(weights), run["final"].get<std::vector<double>>());
  }
}

}  // namespace
}  // namespace composer
