// Compares 50 steps of an MLP and of a transformer with mosaicml 0.32.1 with the same weights, data and optimizer, in
// fp32 and in amp_bf16 (the note in tests/golden/loss_curves.json says what is compared and explains the tolerances).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/decoupled_adamw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& LossCurveGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/loss_curves.json").value()));
  return *golden;
}

at::Tensor Integers(const Json& values) {
  if (!values[0].is_array()) return torch::tensor(values.get<std::vector<int64_t>>(), at::kLong);
  std::vector<at::Tensor> rows;
  for (const Json& row : values) rows.push_back(torch::tensor(row.get<std::vector<int64_t>>(), at::kLong));
  return torch::stack(rows);
}

std::shared_ptr<Model> MakeModel(const Json& curve) {
  if (curve["model"] == "mlp") return MakeMlp({64, 64, 64, 10});
  const Json& gpt = LossCurveGolden()["gpt"];
  GptOptions options;
  options.layers = gpt["layers"], options.heads = gpt["heads"], options.width = gpt["width"];
  options.context = gpt["context"], options.vocab = gpt["vocab"];
  return MakeGpt(options);
}

// Fills as the golden file's note says; norms' weights are around 1.
void Fill(Model& model, float scale) {
  const torch::NoGradGuard no_grad;
  Draws draws(1);
  for (const auto& item : model.named_parameters()) {
    const bool norm = item.key().find("ln_") != std::string::npos && item.key().find("weight") != std::string::npos;
    float* data = item.value().data_ptr<float>();
    for (int64_t i = 0; i < item.value().numel(); ++i) data[i] = norm ? 1 + 0.1F * draws.Next() : draws.Next() * scale;
  }
}

at::Tensor AllWeights(const std::vector<at::Tensor>& params) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& param : params) flat.push_back(param.detach().flatten().to(at::kDouble));
  return torch::cat(flat);
}

std::unique_ptr<Optimizer> MakeAdamW(Model& model) {
  const Json& golden = LossCurveGolden()["optimizer"];
  auto groups = MakeTestAdamW(model, golden["lr"])->groups();
  groups[0].weight_decay = golden["weight_decay"];
  AdamWOptions adam;
  adam.beta1 = golden["betas"][0], adam.beta2 = golden["betas"][1], adam.eps = golden["eps"];
  return std::make_unique<DecoupledAdamWOptimizer>(std::move(groups), adam);
}

TrainerOptions CurveRun(const Json& curve, Precision precision) {
  TrainerOptions options = SmallRun();
  options.model = MakeModel(curve);
  Fill(*options.model, curve["scale"]);
  options.train.dataset = curve["inputs"].empty()
                              ? MakeRows(80, 64, 10)
                              : MakeTensorRows(Integers(curve["inputs"]), Integers(curve["targets"]));
  options.train.shuffle = false;
  options.train.global_train_batch_size = 16;
  options.device_train_microbatch_size = 8;
  options.max_duration = Time::Epochs(10);
  options.precision = precision;
  options.make_optimizer = MakeAdamW;
  return options;
}

struct LossCurve {
  std::vector<double> losses;
  at::Tensor weights;
};

LossCurve RunCurve(const Json& curve, Precision precision) {
  const RunResult result = Train(CurveRun(curve, precision));
  EXPECT_TRUE(result.status.ok()) << result.status;
  std::vector<at::Tensor> params;
  for (const auto& [name, tensor] : result.tensors) params.push_back(tensor);
  return {result.losses, AllWeights(params)};
}

// Returns the norm of the difference of the weights relative to the golden's norm, estimated by its probes.
double WeightDistance(const at::Tensor& weights, const Json& run) {
  Draws draws(LossCurveGolden()["seed"].get<uint32_t>());
  double squares = 0;
  for (const Json& expected : run["probes"]) {
    const at::Tensor probe = torch::empty({weights.numel()}, at::kDouble);
    for (int64_t i = 0; i < probe.numel(); ++i) probe.data_ptr<double>()[i] = draws.Next();
    squares += std::pow(probe.dot(weights).item<double>() - expected.get<double>(), 2);
  }
  return std::sqrt(3 * squares / static_cast<double>(run["probes"].size())) / run["norm"].get<double>();
}

double LossDistance(const std::vector<double>& losses, const Json& expected) {
  double largest = 0;
  for (size_t i = 0; i < losses.size(); ++i)
    largest = std::max(largest, std::abs(losses[i] / expected[i].get<double>() - 1));
  return largest;
}

TEST(LossCurve, StartsFromTheGoldensWeightsAndData) {
  for (const Json& curve : LossCurveGolden()["curves"]) {
    SCOPED_TRACE(curve["model"].get<std::string>());
    const TrainerOptions options = CurveRun(curve, Precision::kFp32);
    const std::vector<at::Tensor> params = options.model->parameters();
    ASSERT_EQ(params.size(), curve["shapes"].size());
    for (size_t i = 0; i < params.size(); ++i) EXPECT_EQ(Json(params[i].sizes().vec()), curve["shapes"][i]);
    EXPECT_NEAR(AllWeights(params).norm().item<double>(), curve["initial_norm"].get<double>(), 1e-5);
    const Batch first = options.train.dataset->Load({0, 1, 2, 79});
    EXPECT_TRUE(first.targets[3].equal(Integers(curve["targets"])[79]));
  }
}

TEST(LossCurve, IsMosaicmls) {
  for (const Json& curve : LossCurveGolden()["curves"]) {
    for (const Json& run : curve["runs"]) {
      const bool mixed = run["precision"] == "amp_bf16";
      const LossCurve ours = RunCurve(curve, mixed ? Precision::kAmpBf16 : Precision::kFp32);
      ASSERT_EQ(ours.losses.size(), 50u);
      const double loss = LossDistance(ours.losses, run["losses"]), weights = WeightDistance(ours.weights, run);
      RecordProperty(absl::StrCat(curve["model"].get<std::string>(), "_", run["precision"].get<std::string>()),
                     absl::StrCat("loss ", loss, ", weights ", weights));
      SCOPED_TRACE(absl::StrCat(curve["model"].get<std::string>(), " in ", run["precision"].get<std::string>()));
      EXPECT_LE(loss, run["tolerance"]["loss"].get<double>());
      EXPECT_LE(weights, run["tolerance"]["weights"].get<double>());
      EXPECT_LT(ours.losses.back(), 0.5 * ours.losses.front()) << "it learns";
      // A run in another precision would not pass: bfloat16's rounding is visible, fp32's is not.
      const double exact = LossDistance(ours.losses, curve["exact_losses"]);
      EXPECT_EQ(exact > 0.1 * curve["runs"][1]["rounding"]["loss"].get<double>(), mixed) << exact;
    }
  }
}

}  // namespace
}  // namespace composer
