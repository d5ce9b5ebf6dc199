// Compares Factorize, GhostBatchNorm, WeightStandardization, LowPrecisionGroupNorm, StochasticDepth, GyroDropout,
// GatedLinearUnits, Alibi, SWA and NoOpModel with mosaicml 0.32.1's (tests/golden/layers.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/trainer/algorithms/step_algorithms.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/factorize.h"
#include "trainer/algorithms/surgery/gated_linear_units.h"
#include "trainer/algorithms/surgery/ghost_batch_norm.h"
#include "trainer/algorithms/surgery/gyro_dropout.h"
#include "trainer/algorithms/surgery/low_precision_group_norm.h"
#include "trainer/algorithms/surgery/no_op_model.h"
#include "trainer/algorithms/surgery/stochastic_depth.h"
#include "trainer/algorithms/surgery/weight_standardization.h"
#include "trainer/algorithms/swa.h"
#include "trainer/layers/layer_list.h"
#include "trainer/loop/autocast.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& LayersGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/layers.json").value()));
  return *golden;
}

void ExpectNear(const at::Tensor& ours, const Json& golden, double tolerance = 1e-6) {
  const auto values = golden.get<std::vector<double>>();
  ASSERT_EQ(ours.numel(), static_cast<int64_t>(values.size()));
  const at::Tensor expected = torch::tensor(values, at::kDouble);
  const at::Tensor difference = ours.detach().flatten().to(at::kDouble) - expected;
  EXPECT_LE(difference.norm().item<double>(), tolerance * std::max(1.0, expected.norm().item<double>()));
}

void FillLayer(torch::nn::Module& module, uint32_t start, float scale) {
  const torch::NoGradGuard no_grad;
  Draws draws(start);
  for (at::Tensor& param : module.parameters()) {
    at::Tensor flat = param.view(-1);
    for (int64_t i = 0; i < flat.numel(); ++i) flat[i] = scale * draws.Next();
  }
}

void ExpectForwardAndBack(torch::nn::Module& module, Layer& layer, at::Tensor x, const Json& row) {
  x.requires_grad_();
  const at::Tensor y = layer.forward(x);
  ExpectNear(y, row["output"]);
  y.square().sum().backward();
  std::vector<at::Tensor> gradients = {x.grad().flatten()};
  for (const at::Tensor& param : module.parameters()) gradients.push_back(param.grad().flatten());
  ExpectNear(torch::cat(gradients), row["gradients"], 1e-5);
}

// A model of one layer, so that algorithms can change it.
class OneLayer final : public Classifier {
 public:
  explicit OneLayer(std::shared_ptr<torch::nn::Module> layer) : layer_(*this, "layer", std::move(layer)) {}
  Layer& layer() { return *layer_; }
  torch::nn::Module& module() { return *named_children()["layer"]; }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override { return layer_->forward(inputs); }

 private:
  Slot<Layer> layer_;
};

TEST(LayersGolden, FactorizesAsComposer) {
  for (const Json& row : LayersGolden()["factorize"]["ranks"]) {
    EXPECT_EQ(LatentSize(row[0], row[1], row[2]), row[3].get<int64_t>()) << row.dump();
    EXPECT_EQ(LargestUsefulRank(row[1], row[2]), row[4].get<int64_t>()) << row.dump();
  }
  for (const Json& row : LayersGolden()["factorize"]["layers"]) {
    const bool conv = row["kind"] == "conv";
    std::shared_ptr<torch::nn::Module> layer = std::make_shared<LinearLayer>(16, 12);
    if (conv)
      layer = std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(8, 12, 3).stride(2).padding(1).bias(false));
    OneLayer net(layer);
    Factorize algorithm({.min_channels = 8, .latent_channels = 0.5, .min_features = 12, .latent_features = 4});
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(algorithm.ChangeModel(net, {}).ok());
    EXPECT_EQ(net.module().named_parameters().keys(), row["parameters"].get<std::vector<std::string>>());
    FillLayer(net, 1, 0.3F);
    const at::Tensor x = conv ? DrawTensor(2, {2, 8, 6, 6}) : DrawTensor(2, {3, 16});
    ExpectForwardAndBack(net.module(), net.layer(), x, row);
  }
  const LowRank factors = FactorizeMatrix(DrawTensor(3, {6, 10}), 3);
  ExpectNear(factors.out.matmul(factors.in), LayersGolden()["factorize"]["svd"], 1e-5);
}

TEST(Factorize, WithSvdTheLayerOfFullRankIsTheOldOneAndThoseThatSaveNothingStay) {
  OneLayer net(std::make_shared<LinearLayer>(40, 8));
  FillLayer(net, 1, 0.3F);
  const at::Tensor x = DrawTensor(2, {3, 40}), before = net.layer().forward(x);
  Factorize useless({.min_features = 8, .latent_features = 7, .svd_init = true});
  ASSERT_TRUE(useless.ChangeModel(net, {}).ok());
  EXPECT_EQ(net.module().parameters().size(), 2u) << "7 > 320 / 48";
  const torch::NoGradGuard no_grad;
  // A matrix of rank 3.
  auto& linear = *net.module().as<torch::nn::LinearImpl>();
  linear.weight.copy_(DrawTensor(3, {8, 3}).matmul(DrawTensor(4, {3, 40})));
  const at::Tensor low = net.layer().forward(x);
  Factorize algorithm({.min_features = 8, .latent_features = 3, .svd_init = true});
  ASSERT_TRUE(algorithm.ChangeModel(net, {}).ok());
  EXPECT_EQ(net.module().parameters().size(), 3u);
  EXPECT_TRUE(torch::allclose(net.layer().forward(x), low, 1e-4, 1e-5));
}

TEST(LayersGolden, GhostBatchNormsValues) {
  for (const Json& row : LayersGolden()["ghost"]) {
    OneLayer net(std::make_shared<BatchNorm2dLayer>(torch::nn::BatchNormOptions(3)));
    GhostBatchNorm algorithm(row["size"].get<int64_t>());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(algorithm.ChangeModel(net, {}).ok());
    EXPECT_EQ(net.module().named_parameters().keys(), row["parameters"].get<std::vector<std::string>>());
    FillLayer(net, 1, 1);
    const int64_t batch = row["batch"];
    ExpectForwardAndBack(net.module(), net.layer(), DrawTensor(2, {batch, 3, 2, 2}), row);
    const auto buffers = net.named_buffers();
    ExpectNear(torch::cat({buffers["layer.batchnorm.running_mean"], buffers["layer.batchnorm.running_var"]}),
               row["buffers"]);
    EXPECT_THROW(net.layer().forward(torch::zeros({2, 3, 1, 1})), c10::ValueError);
    net.eval();
    EXPECT_EQ(net.layer().forward(torch::zeros({2, 3, 1, 1})).size(0), 2);
  }
}

TEST(LayersGolden, WeightStandardizationsValues) {
  auto layers = std::make_shared<LayerSequence>();
  layers->Add(std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(2, 4, 3).padding(1)));
  layers->Add(std::make_shared<ReluLayer>());
  layers->Add(std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(4, 3, 1)));
  OneLayer net(layers);
  FillLayer(net, 1, 0.3F);
  const std::vector<std::string> names = net.named_parameters().keys();
  WeightStandardization algorithm(1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(algorithm.ChangeModel(net, {}).ok());
  EXPECT_EQ(net.named_parameters().keys(), names);
  const at::Tensor y = net.layer().forward(DrawTensor(2, {2, 2, 5, 5}));
  ExpectNear(y, LayersGolden()["standardized"]["output"]);
  y.square().sum().backward();
  ExpectNear(net.parameters()[0].grad(), LayersGolden()["standardized"]["gradient"], 1e-5);
}

TEST(LayersGolden, LowPrecisionGroupNormsValues) {
  OneLayer net(std::make_shared<GroupNormLayer>(2, 6));
  FillLayer(net, 4, 1);
  const at::Tensor x = DrawTensor(5, {3, 6, 2}), exact = net.layer().forward(x);
  LowPrecisionGroupNorm algorithm;
  ASSERT_TRUE(algorithm.ChangeModel(net, {.precision = Precision::kFp32}).ok());
  EXPECT_EQ(dynamic_cast<LowPrecisionGroupNormLayer*>(&net.layer()), nullptr);
  ASSERT_TRUE(algorithm.ChangeModel(net, {.precision = Precision::kAmpBf16}).ok());
  EXPECT_TRUE(net.layer().forward(x).equal(exact));
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  const at::Tensor y = net.layer().forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  ExpectNear(y, LayersGolden()["group_norm"], 1e-12);
}

TEST(LayersGolden, StochasticDepthDropsWhatComposerDrops) {
  const StochasticDepthOptions linear = {.target_layer_name = "ResNetBasicBlock"};
  std::set<std::string> outputs;
  for (const Json& row : LayersGolden()["stochastic"]) {
    SCOPED_TRACE(row["method"].dump() + row["seed"].dump());
    EXPECT_NEAR(DropRate(linear, 0.8, 1, 4), row["drop_rate"].get<double>(), 1e-6);
    StochasticSum sum("ResNetBasicBlock", row["method"] == "sample", 0.4);
    sum.train(row["training"]);
    torch::manual_seed(row["seed"].get<uint64_t>());
    const at::Tensor x = DrawTensor(1, {5, 2, 1, 1}).abs();
    ExpectNear(sum.forward([&] { return 3 * x; }, [&] { return x; }), row["output"]);
    outputs.insert(row["output"].dump());
  }
  EXPECT_GE(outputs.size(), 6u) << "the draws differ";
  EXPECT_EQ(DropRate({.target_layer_name = "", .linear = false}, 0.8, 1, 4), 0.8);
}

TEST(LayersGolden, GyroDropoutMasksAsComposer) {
  const GyroDropoutOptions options = {.p = 0.3, .sigma = 6, .tau = 4};
  EXPECT_EQ(GyroPeriod(options, 30), 20);
  EXPECT_EQ(GyroPeriod(options, 3), 4) << "Composer divides by zero";
  const auto values = LayersGolden()["gyro"]["masks"].get<std::vector<float>>();
  const at::Tensor masks = torch::tensor(values).view({6, 5}), x = DrawTensor(4, {8, 5});
  std::vector<int64_t> picks;
  int64_t step = 0;
  for (const Json& row : LayersGolden()["gyro"]["steps"]) {
    EXPECT_EQ(row["picked"].get<bool>(), step++ % 20 == 0);
    if (row["picked"]) picks = row["picks"].get<std::vector<int64_t>>();
    ExpectNear(GyroMask(x, masks.index_select(0, torch::tensor(picks)), 0.3), row["output"]);
  }
  EXPECT_THROW(GyroMask(DrawTensor(4, {7, 5}), masks, 0.3), c10::ValueError);
  EXPECT_THROW(GyroMask(DrawTensor(4, {6, 5, 2}), masks, 0.3), c10::ValueError);
}

TEST(GyroDropoutLayer, HasATauthOfSigmaMasksAtATimeAndOthersWithAnotherChoice) {
  GyroDropoutLayer layer({.p = 0.5, .sigma = 64, .tau = 4});
  const at::Tensor ones = torch::ones({8, 32});
  layer.SetSeeds(1, 2);
  const at::Tensor first = layer.forward(ones);
  EXPECT_TRUE(layer.forward(ones).equal(first));
  EXPECT_TRUE(first[0].equal(first[1]));
  EXPECT_FALSE(first[1].equal(first[2]));
  EXPECT_TRUE((first.eq(0) | first.eq(2)).all().item<bool>());
  EXPECT_NEAR(first.mean().item<double>(), 1, 0.35);
  layer.SetSeeds(1, 3);
  EXPECT_FALSE(layer.forward(ones).equal(first));
  layer.SetSeeds(1, 2);
  EXPECT_TRUE(layer.forward(ones).equal(first));
  layer.eval();
  EXPECT_TRUE(layer.forward(ones).equal(ones));
}

TEST(LayersGolden, GatesAsComposer) {
  for (const Json& row : LayersGolden()["gated"]) {
    const std::string act = row["act"];
    GatedLinearUnitsOptions options;
    options.gated_layer_bias = options.non_gated_layer_bias = row["bias"];
    std::shared_ptr<torch::nn::Module> activation = std::make_shared<GeluLayer>();
    if (act == "relu") activation = std::make_shared<ReluLayer>();
    if (act == "silu") activation = std::make_shared<TorchLayer<torch::nn::SiLUImpl>>();
    const auto gated = std::make_shared<GatedLinear>(4, 7, options, activation);
    LayerSequence net({gated, std::make_shared<LinearLayer>(7, 4)});
    FillLayer(net, 1, 0.5F);
    ExpectNear(net.forward(DrawTensor(2, {3, 4})), row["output"]);
  }
}

TEST(LayersGolden, AlibisSlopesAndAttention) {
  const Json& golden = LayersGolden()["alibi"];
  for (size_t heads = 1; heads <= golden["slopes"].size(); ++heads) {
    const auto slopes = AlibiSlopes(static_cast<int64_t>(heads));
    const auto expected = golden["slopes"][heads - 1].get<std::vector<double>>();
    ASSERT_EQ(slopes.size(), expected.size());
    for (size_t h = 0; h < heads; ++h) EXPECT_NEAR(slopes[h], expected[h], 1e-12);
  }
  for (const Json& row : golden["attention"]) {
    const int64_t heads = row["heads"];
    const at::Tensor all = DrawTensor(7, {3, 2, heads, 9, 5});
    AlibiAttention attention(0);
    const at::Tensor whole = attention.forward(all[0], all[1], all[2], std::nullopt, true);
    ExpectNear(whole, row["output"]);
    // The last query alone, as in generation, with a mask that hides nothing.
    const at::Tensor last = attention.forward(all[0].slice(2, 8), all[1], all[2], torch::ones({2, 1, 1, 9}, at::kBool),
                                              /*is_causal=*/false);
    EXPECT_TRUE(torch::allclose(last, whole.slice(2, 8), 1e-5, 1e-6));
  }
}

RunResult TrainGolden(std::unique_ptr<Algorithm> algorithm, int64_t epochs, double lr, int64_t classes) {
  TrainerOptions options = StepRun({});
  options.make_optimizer = DecoupledSGDW(lr, {.momentum = 0.9});
  options.train.dataset = MakeRows(40, 8, classes);
  options.train.shuffle = false;
  options.max_duration = Time::Epochs(epochs);
  options.algorithms.push_back(std::move(algorithm));
  return Train(std::move(options));
}

void ExpectTrained(const RunResult& result, const Json& golden) {
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (size_t i = 0; i < result.losses.size(); ++i) EXPECT_NEAR(result.losses[i], golden["losses"][i], 3e-6) << i;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : result.tensors) tensors.push_back(tensor.flatten());
  ExpectNear(torch::cat(tensors), golden["final"], 5e-6);
}

TEST(LayersGolden, SwasWeightsAndLosses) {
  for (const Json& row : LayersGolden()["swa"]) {
    SCOPED_TRACE(row["arguments"].dump());
    SwaOptions options;
    const auto time = [&](const char* key, Time& value) {
      if (row["arguments"].contains(key)) value = ParseTime(row["arguments"][key].get<std::string>()).value();
    };
    time("swa_start", options.swa_start);
    time("swa_end", options.swa_end);
    time("update_interval", options.update_interval);
    ExpectTrained(TrainGolden(std::make_unique<Swa>(options), row["epochs"], 0.5, 4), row);
  }
}

TEST(LayersGolden, NoOpModelsWeight) {
  ExpectTrained(TrainGolden(std::make_unique<NoOpModel>(), 2, 0.01, 2), LayersGolden()["no_op"]);
}

}  // namespace
}  // namespace composer
