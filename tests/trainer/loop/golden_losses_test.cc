// Compares one loss, a tuple of losses and a map of them with mosaicml 0.32.1: what is trained on, and what is logged
// under which name (tests/golden/losses.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "base/file.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/optim/decoupled_sgdw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

class LossesModel final : public Model {
 public:
  explicit LossesModel(std::string form) : form_(std::move(form)), layer_(8, 4) {
    register_module("layer", layer_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return layer_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    const at::Tensor entropy = at::cross_entropy_loss(outputs, batch.targets), square = outputs->square().mean();
    using Named = std::vector<std::pair<std::string, at::Tensor>>;
    if (form_ == "scalar") return Loss(entropy + square);
    if (form_ == "tuple") return Loss(std::vector<at::Tensor>{entropy, square});
    if (form_ == "map") return Loss(Named{{"entropy", entropy}, {"square", square}});
    return Loss(Named{{"total", entropy + 0.25 * square}, {"square", square}, {"entropy", entropy}});
  }
  MetricList metrics(bool) const override { return {}; }

 private:
  std::string form_;
  torch::nn::Linear layer_;
};

using Logged = std::vector<std::map<std::string, double>>;

// Records what is logged at each step under loss/.
class Losses final : public LoggerDestination {
 public:
  explicit Losses(Logged* steps) : steps_(steps) {}
  std::string name() const override { return "Losses"; }
  absl::Status Write(const MetricRecord& record) override {
    std::map<std::string, double> step;
    for (const MetricValue& metric : record.metrics) {
      const std::string name(metric.name);
      if (absl::StartsWith(name, "loss/")) EXPECT_TRUE(step.emplace(name, metric.value).second) << name << " twice";
    }
    if (!step.empty()) steps_->push_back(std::move(step));
    return absl::OkStatus();
  }

 private:
  Logged* steps_;
};

TrainerOptions Options(const std::string& form, Logged* logged) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<LossesModel>(form);
  options.train.dataset = MakeRows(15);
  options.train.shuffle = false;
  options.train.global_train_batch_size = 5;
  options.device_train_microbatch_size = 2;
  options.max_duration = Time::Epochs(1);
  options.make_optimizer = [](Model& model) {
    auto groups = MakeTestAdamW(model, 0.5)->groups();
    groups[0].weight_decay = 0;
    return std::make_unique<DecoupledSgdwOptimizer>(std::move(groups), SgdwOptions{});
  };
  options.loggers.push_back(std::make_unique<Losses>(logged));
  return options;
}

void ExpectAsGolden(const Json& golden, const Logged& logged, const RunResult& result) {
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(logged.size(), golden["logged"].size());
  for (size_t i = 0; i < logged.size(); ++i) {
    const auto expected = golden["logged"][i].get<std::map<std::string, double>>();
    ASSERT_EQ(logged[i].size(), expected.size()) << "step " << i;
    for (const auto& [name, value] : expected) {
      ASSERT_EQ(logged[i].count(name), 1u) << name;
      EXPECT_NEAR(logged[i].at(name), value, 2e-6) << name << " of step " << i;
    }
  }
  ASSERT_EQ(result.tensors.size(), golden["final"].size());
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const at::Tensor expected = torch::tensor(golden["final"][i].get<std::vector<double>>(), at::kDouble);
    const at::Tensor ours = result.tensors[i].second.flatten().to(at::kDouble);
    EXPECT_LE((ours - expected).norm().item<double>(), 1e-6 * expected.norm().item<double>());
  }
}

TEST(GoldenLosses, AreTrainedOnAndLoggedAsMosaicmlDoes) {
  const Json golden = Json::parse(ReadFile("tests/golden/losses.json").value());
  ASSERT_EQ(golden["runs"].size(), 4u);
  for (const Json& run : golden["runs"]) {
    SCOPED_TRACE(run["form"].get<std::string>());
    Logged logged;
    const RunResult result = Train(Options(run["form"], &logged));
    ExpectAsGolden(run, logged, result);
    std::vector<Logged> by_rank(2);
    const auto results = TrainOnRanks(2, [&](int rank) { return Options(run["form"], &by_rank[size_t(rank)]); });
    ExpectAsGolden(run, by_rank[0], results[0]);
  }
}

}  // namespace
}  // namespace composer
