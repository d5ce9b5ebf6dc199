// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/muon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/matrix/neuron_scale.h"

namespace composer {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MuonOptions ArgsOf(const Json& args) {
  MuonOptions options;
  options.momentum = args.value("momentum", options.momentum);
  options.nesterov = args.value("nesterov", options.nesterov);
  if (args.contains("ns_coefficients")) options.newton_schulz.coefficients = args["ns_coefficients"];
  options.newton_schulz.steps = args.value("ns_steps", options.newton_schulz.steps);
  if (args.value("adjust_lr_fn", "original") == "match_rms_adamw") options.adjust_lr_fn = MuonLr::kMatchRmsAdamW;
  return options;
}

// bfloat16 products are rounded differently in the two implementations.
TEST(MuonTest, AgreesWithTorch) {
  const auto make = [](std::vector<ParamGroup> groups, const Json& args) {
    return std::make_unique<MuonOptimizer>(MuonGroups{std::move(groups), {}}, ArgsOf(args));
  };
  EXPECT_EQ(ReplayGolden("torch_muon", "Muon", make, 1e-6, 0.02), 4);
}

at::Tensor Orthogonalized(const at::Tensor& matrices, int steps = 5) {
  const at::Tensor result = torch::empty_like(matrices);
  Orthogonalize(matrices.clone(), result, {.steps = steps});
  return result;
}

TEST(MuonTest, OrthogonalisesTallAndWideMatricesTogether) {
  torch::manual_seed(1);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{24, 8}, {8, 24}, {16, 16}}) {
    const at::Tensor matrices = torch::randn({3, rows, columns}).to(torch::kBFloat16);
    const at::Tensor result = Orthogonalized(matrices).to(torch::kFloat);
    const at::Tensor values = std::get<1>(at::linalg_svd(result));
    EXPECT_GT(values.min().item<double>(), rows == columns ? 0.02 : 0.5);
    EXPECT_LT(values.max().item<double>(), 1.4);
    const at::Tensor even = Orthogonalized(matrices, 4).to(torch::kFloat);
    EXPECT_NEAR(std::get<1>(at::linalg_svd(even)).max().item<double>(), 1, 0.3) << "an even number of steps";
    const at::Tensor unit = matrices.to(torch::kFloat) / matrices.to(torch::kFloat).norm(2, {1, 2}, true);
    EXPECT_TRUE(torch::allclose(Orthogonalized(matrices, 0).to(torch::kFloat), unit, 0.01, 1e-3)) << "no step";
  }
  // Zero stays zero.
  EXPECT_EQ(Orthogonalized(torch::zeros({1, 4, 4}, torch::kBFloat16)).abs().max().item<double>(), 0);
}

// Ranks that have one matrix and those that have several of its shape must agree.
TEST(MuonTest, AMatrixHasTheSameBitsAloneAndAmongOthers) {
  torch::manual_seed(2);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{384, 128}, {128, 512}, {40, 24}}) {
    const at::Tensor matrices = torch::randn({4, rows, columns}).to(torch::kBFloat16);
    const at::Tensor together = Orthogonalized(matrices);
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(together[i].equal(Orthogonalized(matrices.narrow(0, i, 1))[0])) << rows << " x " << columns;
    }
  }
}

TEST(MuonTest, LearningRateRatios) {
  EXPECT_DOUBLE_EQ(MuonLrRatio(MuonLr::kOriginal, 400, 100), 2);
  EXPECT_DOUBLE_EQ(MuonLrRatio(MuonLr::kOriginal, 100, 400), 1);
  EXPECT_DOUBLE_EQ(MuonLrRatio(MuonLr::kMatchRmsAdamW, 100, 400), 4);
}

// Rows (1, 1) and (1, 0): mean squares 1 and 1/2. At first v is 1 - beta2 of them, so that each row is scaled by
// 1 / sqrt(v), and then all by the quotient of the norms, sqrt(3) and sqrt(2 / v_1 + 1 / v_2).
TEST(NorMuonTest, RowsAreScaledByTheirMeanSquareAndKeepTheNormOfAll) {
  const at::Tensor direction = torch::tensor({1.0F, 1.0F, 1.0F, 0.0F}).view({2, 2});
  at::Tensor moment = torch::zeros({2});
  const at::Tensor first = NeuronFactors(direction, moment, 0.75);
  EXPECT_TRUE(torch::allclose(moment, torch::tensor({0.25F, 0.125F})));
  const at::Tensor scales = torch::tensor({2.0F, std::sqrt(8.0F)});
  EXPECT_TRUE(torch::allclose(first, scales * std::sqrt(3.0 / 16.0)));
  EXPECT_NEAR((direction * first.unsqueeze(1)).norm().item<double>(), std::sqrt(3.0), 1e-6);
  NeuronFactors(direction.to(torch::kBFloat16).t(), moment, 0.75);  // rows (1, 1), (1, 0) as well
  EXPECT_TRUE(torch::allclose(moment, torch::tensor({0.4375F, 0.21875F})));
  const at::Tensor before = moment.clone();
  EXPECT_TRUE(NeuronFactors(torch::zeros({2, 2}), moment, 0.75).isfinite().all().item<bool>());
  EXPECT_TRUE(moment.equal(before)) << "without a gradient";
}

// Each row of the update has nearly the same length, where Muon's have not, and all together have Muon's.
TEST(NorMuonTest, IsMuonWithEvenRows) {
  torch::manual_seed(3);
  const at::Tensor gradient = torch::randn({16, 8}) * torch::linspace(0.1, 3, 16).unsqueeze(1);
  const auto update = [&](std::optional<double> second_beta) {
    const at::Tensor param = torch::zeros({16, 8}).requires_grad_(true);
    MuonOptions options;
    options.second_beta = second_beta;
    MuonOptimizer optimizer(MuonGroups{OneGroup({param}, 1, 0), {}}, options);
    param.mutable_grad() = gradient.clone();
    optimizer.Step();
    EXPECT_EQ(optimizer.name(), second_beta ? "NorMuon" : "Muon");
    EXPECT_EQ(optimizer.state().size(), second_beta ? 2u : 1u);
    return param.detach();
  };
  const at::Tensor muon = update({}), normuon = update(0.95);
  EXPECT_NEAR(normuon.norm().item<double>(), muon.norm().item<double>(), 1e-3);
  const at::Tensor rows = normuon.norm(2, 1);
  EXPECT_LT((rows.max() / rows.min()).item<double>(), 1.001);
  EXPECT_GT((muon.norm(2, 1).max() / muon.norm(2, 1).min()).item<double>(), 1.2);
}

NamedTensors ParametersOfAModel() {
  const auto param = [](at::IntArrayRef shape) { return torch::ones(shape).requires_grad_(true); };
  return {{"wte.weight", param({8, 4})},      {"blocks.0.qkv.weight", param({12, 4})},
          {"blocks.0.qkv.bias", param({12})}, {"blocks.0.conv.weight", param({4, 4, 3, 3})},
          {"ln_f.weight", param({4})},        {"lm_head.weight", param({8, 4})}};
}

TEST(MuonGroupsTest, MatricesOfHiddenLayersAndTheRest) {
  MuonGroupOptions options;
  options.lr = 0.02;
  options.adamw_lr = 0.003;
  options.no_decay_on_bias_and_norm = true;
  options.rules = {{"lm_head.*", 0.1, std::nullopt}, {"*qkv*", std::nullopt, 0.5}};
  const auto groups = MakeMuonGroups(ParametersOfAModel(), options);
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->matrices.size(), 1u);
  EXPECT_THAT(groups->matrices[0].names, ElementsAre("blocks.0.qkv.weight"));
  EXPECT_EQ(groups->matrices[0].initial_lr, 0.02);
  EXPECT_EQ(groups->matrices[0].weight_decay, 0.5);
  ASSERT_EQ(groups->others.size(), 4u);
  EXPECT_THAT(groups->others[0].names, ElementsAre("wte.weight", "blocks.0.conv.weight"));
  EXPECT_EQ(groups->others[0].initial_lr, 0.003);
  EXPECT_EQ(groups->others[0].weight_decay, 1e-2);
  EXPECT_THAT(groups->others[1].names, ElementsAre("blocks.0.qkv.bias"));
  EXPECT_EQ(groups->others[1].weight_decay, 0.5);
  EXPECT_THAT(groups->others[2].names, ElementsAre("ln_f.weight"));
  EXPECT_EQ(groups->others[2].weight_decay, 0);
  EXPECT_THAT(groups->others[3].names, ElementsAre("lm_head.weight"));
  EXPECT_EQ(groups->others[3].initial_lr, 0.1);
}

TEST(MuonGroupsTest, ErrorsNameTheReason) {
  MuonGroupOptions options;
  options.rules = {{"tail.*", 1.0, {}}};
  EXPECT_EQ(MakeMuonGroups(ParametersOfAModel(), options).status().message(),
            "pattern `tail.*` matches no parameter; the first is `wte.weight`");
  options.rules.clear();
  options.adamw_patterns = {"*"};
  EXPECT_THAT(std::string(MakeMuonGroups(ParametersOfAModel(), options).status().message()),
              HasSubstr("no parameter is a matrix"));
}

// The others are updated exactly as by AdamW, and a group's state has its own index.
TEST(MuonTest, TheOthersGetAdamW) {
  const NamedTensors model = ParametersOfAModel(), copy = ParametersOfAModel();
  MuonGroupOptions options;
  options.adamw_lr = 0.01;
  const MuonGroups groups = MakeMuonGroups(model, options).value();
  MuonOptimizer muon(groups, {});
  NamedTensors rest;
  for (const auto& item : copy) {
    if (item.first != "blocks.0.qkv.weight") rest.push_back(item);
  }
  AdamWOptimizer adamw(MakeParamGroups(rest, {.lr = 0.01, .weight_decay = 1e-2}).value(), {});
  for (int step = 0; step < 3; ++step) {
    for (const NamedTensors* parameters : {&model, &copy}) {
      for (const auto& [name, param] : *parameters) param.mutable_grad() = torch::full_like(param, 0.1 * (step + 1));
    }
    muon.Step();
    adamw.Step();
  }
  for (size_t i = 0; i < model.size(); ++i) {
    const bool matrix = model[i].first == "blocks.0.qkv.weight";
    EXPECT_EQ(torch::equal(model[i].second, copy[i].second), false || !matrix) << model[i].first;
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : muon.state()) names.push_back(name);
  EXPECT_EQ(names[0], "blocks.0.qkv.weight/momentum_buffer");
  EXPECT_EQ(names[1], "group1/step");
  EXPECT_EQ(names[2], "wte.weight/exp_avg");
}

TEST(MuonTest, RefusesBadOptions) {
  const auto message = [](const auto& change) {
    MuonOptions options;
    change(options);
    return std::string(Validate(options).message());
  };
  EXPECT_EQ(message([](MuonOptions& o) { o.momentum = 1; }), "momentum: 1, must be in [0, 1)");
  EXPECT_EQ(message([](MuonOptions& o) { o.newton_schulz.steps = 100; }), "ns_steps: 100, must be from 0 to 99");
  EXPECT_EQ(message([](MuonOptions& o) { o.newton_schulz.eps = 0; }), "eps: 0, must be more than 0");
  EXPECT_EQ(message([](MuonOptions& o) { o.second_beta = 1; }), "beta2: 1, must be in [0, 1)");
  EXPECT_EQ(message([](MuonOptions& o) { o.adamw.eps = -1; }), "adamw: eps: -1, must be >= 0");
  const at::Tensor vector = torch::zeros({3}).requires_grad_(true);
  EXPECT_THROW(MuonOptimizer(MuonGroups{OneGroup({vector}, 0.1, 0), {}}, {}), c10::ValueError);
}

}  // namespace
}  // namespace composer
