// Compares BlurPool, SqueezeExcite and LowPrecisionLayerNorm, and the training of Factorize, GhostBatchNorm and
// WeightStandardization, with mosaicml 0.32.1's (tests/golden/surgery.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn/modules/normalization.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "base/file.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "trainer/algorithms/surgery/factorize.h"
#include "trainer/algorithms/surgery/ghost_batch_norm.h"
#include "trainer/algorithms/surgery/weight_standardization.h"
#include "trainer/init/change_model.h"
#include "trainer/loop/autocast.h"
#include "trainer/optim/decoupled_sgdw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

Json SurgeryGolden() { return Json::parse(ReadFile("tests/golden/surgery.json").value()); }

std::unique_ptr<Algorithm> MakeBlur(const Json& arguments) {
  BlurPoolOptions options;
  options.replace_convs = arguments.value("replace_convs", options.replace_convs);
  options.replace_maxpools = arguments.value("replace_maxpools", options.replace_maxpools);
  options.blur_first = arguments.value("blur_first", options.blur_first);
  options.min_channels = arguments.value("min_channels", options.min_channels);
  return std::make_unique<BlurPool>(options);
}

std::unique_ptr<Algorithm> MakeExcite(const Json& arguments) {
  SqueezeExciteOptions options;
  options.latent_channels = arguments.value("latent_channels", options.latent_channels);
  options.min_channels = arguments.value("min_channels", options.min_channels);
  return std::make_unique<SqueezeExcite>(options);
}

std::unique_ptr<Algorithm> MakeFactorize(const Json& arguments) {
  FactorizeOptions options;
  options.min_channels = arguments.at("min_channels");
  options.latent_channels = arguments.at("latent_channels");
  return std::make_unique<Factorize>(options);
}

std::unique_ptr<Algorithm> MakeGhost(const Json& arguments) {
  return std::make_unique<GhostBatchNorm>(arguments.at("ghost_batch_size").get<int64_t>());
}

std::unique_ptr<Algorithm> MakeStandardization(const Json& arguments) {
  return std::make_unique<WeightStandardization>(arguments.at("n_last_layers_ignore").get<int64_t>());
}

at::Tensor Joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().flatten().to(at::kDouble));
  return torch::cat(flat);
}

void ExpectClose(const at::Tensor& ours, const Json& golden, double tolerance) {
  const auto values = golden.get<std::vector<double>>();
  ASSERT_EQ(ours.numel(), static_cast<int64_t>(values.size()));
  const at::Tensor expected = torch::tensor(values, at::kDouble);
  EXPECT_LE((ours - expected).norm().item<double>(), tolerance * expected.norm().item<double>());
}

using MakeFromJson = std::unique_ptr<Algorithm> (*)(const Json& arguments);

void CheckLayers(const Json& rows, MakeFromJson make) {
  ASSERT_GE(rows.size(), 3u);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["arguments"].dump());
    SurgeryNet net;
    const auto algorithm = make(row["arguments"]);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(algorithm->ChangeModel(net, {}).ok());  // the second changes nothing
    EXPECT_EQ(net.named_parameters().keys(), row["parameters"].get<std::vector<std::string>>());
    EXPECT_EQ(net.named_buffers().keys(), row["buffers"].get<std::vector<std::string>>());
    FillParameters(net);
    Batch batch;
    batch.inputs = DrawTensor(2, {2, 2, 8, 8}).requires_grad_();
    const at::Tensor outputs = net.forward(batch);
    ExpectClose(Joined({outputs}), row["output"], 1e-6);
    outputs.square().sum().backward();
    std::vector<at::Tensor> gradients = {batch.inputs.grad()};
    for (const at::Tensor& param : net.parameters()) gradients.push_back(param.grad());
    ExpectClose(Joined(gradients), row["gradients"], 1e-5);
  }
}

TEST(GoldenSurgery, BlurPoolsLayers) { CheckLayers(SurgeryGolden()["blurpool"], MakeBlur); }
TEST(GoldenSurgery, SqueezeExcitesLayers) { CheckLayers(SurgeryGolden()["squeeze_excite"], MakeExcite); }

// Trains as Composer does, through the whole trainer.
template <typename Net>
void CheckTrained(const Json& rows, MakeFromJson make) {
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows) {
    SCOPED_TRACE(row["arguments"].dump());
    for (const bool with_make_model : {false, true}) {
      TrainerOptions options = SmallRun();
      const at::Tensor inputs = DrawTensor(3, {24, 2, 8, 8});
      options.train.dataset = MakeTensorRows(inputs, inputs.mean({2, 3}).argmax(1));
      options.train.shuffle = false;
      options.model = with_make_model ? nullptr : std::make_shared<Net>();
      if (with_make_model) options.make_model = [] { return std::make_shared<Net>(); };
      options.algorithms.push_back(make(row["arguments"]));
      options.algorithms.push_back(std::make_unique<ChangeBy>([](Model& model) { FillParameters(model); }));
      options.make_optimizer = [](Model& model) {
        auto groups = MakeTestAdamW(model, 0.1)->groups();
        groups[0].weight_decay = 0;
        return std::make_unique<DecoupledSgdwOptimizer>(std::move(groups), SgdwOptions{.momentum = 0.9});
      };
      const RunResult result = Train(std::move(options));
      ASSERT_TRUE(result.status.ok()) << result.status;
      std::vector<at::Tensor> params;
      for (const auto& [name, tensor] : result.tensors) {
        const bool other = absl::StrContains(name, "filt") || absl::StrContains(name, "num_batches_tracked");
        if (!other) params.push_back(tensor);
      }
      ExpectClose(Joined(params), row["final"], 1e-5);
    }
  }
}

TEST(GoldenSurgery, BlurPoolsTraining) { CheckTrained<SurgeryNet>(SurgeryGolden()["trained_blurpool"], MakeBlur); }
TEST(GoldenSurgery, SqueezeExcitesTraining) {
  CheckTrained<SurgeryNet>(SurgeryGolden()["trained_squeeze_excite"], MakeExcite);
}
TEST(GoldenSurgery, FactorizesTraining) {
  CheckTrained<NormedNet>(SurgeryGolden()["trained_factorize"], MakeFactorize);
}
TEST(GoldenSurgery, GhostBatchNormsTraining) {
  CheckTrained<NormedNet>(SurgeryGolden()["trained_ghost_batchnorm"], MakeGhost);
}
TEST(GoldenSurgery, WeightStandardizationsTraining) {
  CheckTrained<NormedNet>(SurgeryGolden()["trained_weight_standardization"], MakeStandardization);
}

TEST(GoldenSurgery, LowPrecisionLayerNormsValues) {
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({6}));
  Draws draws(4);
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : norm->parameters()) {
    for (int64_t i = 0; i < 6; ++i) param.data_ptr<float>()[i] = draws.Next();
  }
  LowPrecisionLayerNormLayer low(*norm);
  const at::Tensor x = DrawTensor(5, {3, 6});
  EXPECT_TRUE(low.forward(x).equal(norm->forward(x)));
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  const at::Tensor y = low.forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
  ExpectClose(Joined({y}), SurgeryGolden()["low_precision_layernorm"]["output"], 1e-12);
}

}  // namespace
}  // namespace composer
