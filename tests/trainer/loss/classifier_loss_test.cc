// Losses by name beside torch's formulas.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/loss/classifier_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace composer {
namespace {

using testing::HasSubstr;

at::Tensor ClassifierOutputs() { return torch::tensor({{1.0, -2.0, 0.5}, {0.25, 3.0, -1.0}}); }
at::Tensor ClassTargets() { return torch::tensor({2, 1}, torch::kLong); }
at::Tensor DenseTargets() { return torch::tensor({{0.0, 0.25, 0.75}, {0.0, 1.0, 0.0}}); }

struct NamedFormula {
  const char* name;
  at::Tensor (*of)(const at::Tensor& outputs, const at::Tensor& dense);
};

// Each of dense targets; class indices are those of a one.
const NamedFormula kFormulas[] = {
    {"soft_cross_entropy",
     [](const at::Tensor& x, const at::Tensor& t) { return -(t * x.log_softmax(1)).sum() / t.sum(); }},
    {"cross_entropy", [](const at::Tensor& x, const at::Tensor& t) { return -(t * x.log_softmax(1)).sum(1).mean(); }},
    {"binary_cross_entropy_with_logits",
     [](const at::Tensor& x, const at::Tensor& t) {
       return -(t * x.sigmoid().log() + (1 - t) * (1 - x.sigmoid()).log()).sum() / 2;
     }},
    {"nll_loss", [](const at::Tensor& x, const at::Tensor& t) { return -(t * x).sum(1).mean(); }},
    {"mse_loss", [](const at::Tensor& x, const at::Tensor& t) { return (x - t).square().mean(); }},
    {"l1_loss", [](const at::Tensor& x, const at::Tensor& t) { return (x - t).abs().mean(); }},
    {"dice_loss",
     [](const at::Tensor& x, const at::Tensor& t) {
       const at::Tensor p = x.softmax(1);
       return (1 - (2 * p * t + 1e-5) / (p + t + 1e-5)).mean();
     }},
};

TEST(ClassifierLoss, IsTheFormulaOfItsName) {
  EXPECT_EQ(ClassifierLossNames().size(), std::size(kFormulas));
  const at::Tensor x = ClassifierOutputs(), ones = torch::one_hot(ClassTargets(), 3).to(torch::kFloat);
  for (const NamedFormula& formula : kFormulas) {
    const ClassifierLoss loss = ClassifierLossByName(formula.name).value();
    EXPECT_NEAR(loss.mean(x, ClassTargets()).item<double>(), formula.of(x, ones).item<double>(), 1e-6) << formula.name;
    if (formula.name == std::string("nll_loss")) continue;  // torch's takes classes only
    EXPECT_NEAR(loss.mean(x, DenseTargets()).item<double>(), formula.of(x, DenseTargets()).item<double>(), 1e-6)
        << formula.name;
  }
}

TEST(ClassifierLoss, IsTheMeanOfItsSamples) {
  const at::Tensor x = ClassifierOutputs();
  for (const std::string& name : ClassifierLossNames()) {
    const ClassifierLoss loss = ClassifierLossByName(name).value();
    EXPECT_EQ(loss.by_sample == nullptr, name == "dice_loss");
    if (loss.by_sample == nullptr) continue;
    const at::Tensor by_sample = loss.by_sample(x, ClassTargets());
    EXPECT_EQ(by_sample.sizes(), (at::IntArrayRef{2})) << name;
    EXPECT_NEAR(by_sample.mean().item<double>(), loss.mean(x, ClassTargets()).item<double>(), 1e-6) << name;
    EXPECT_NEAR(by_sample[1].item<double>(), loss.mean(x.slice(0, 1, 2), ClassTargets().slice(0, 1, 2)).item<double>(),
                1e-6)
        << name;
  }
}

TEST(ClassifierLoss, OptionsAreTorchs) {
  const at::Tensor x = ClassifierOutputs(), weights = torch::tensor({0.5, 2.0, 3.0}), log_p = x.log_softmax(1);
  const auto of = [&](const char* name, const at::Tensor& targets, const ClassifierLossOptions& options) {
    const ClassifierLoss loss = ClassifierLossByName(name, options).value();
    EXPECT_FALSE(loss.by_sample);
    return loss.mean(x, targets).item<double>();
  };
  const ClassifierLossOptions weighted = {.class_weights = {0.5, 2, 3}}, smooth = {.label_smoothing = 0.3},
                              sum = {.sum = true};
  const at::Tensor ones = torch::one_hot(ClassTargets(), 3).to(torch::kFloat);
  const double heavy = -(ones * log_p * weights).sum().item<double>();
  const double soft = -((0.7 * ones + 0.1) * log_p).sum().item<double>();
  for (const char* name : {"soft_cross_entropy", "cross_entropy"}) {
    EXPECT_NEAR(of(name, ClassTargets(), weighted), heavy / (3 + 2), 1e-6) << name;
    EXPECT_NEAR(of(name, ClassTargets(), smooth), soft / 2, 1e-6) << name;
    EXPECT_NEAR(of(name, ClassTargets(), sum), -(ones * log_p).sum().item<double>(), 1e-6) << name;
    EXPECT_NEAR(of(name, DenseTargets(), weighted), -(DenseTargets() * log_p * weights).sum().item<double>() / 2, 1e-6);
  }
  const at::Tensor half = DenseTargets() / 2;  // over the mass of the targets, or over the samples
  const double of_half = -(half * log_p * weights).sum().item<double>();
  EXPECT_NEAR(of("soft_cross_entropy", half, weighted), of_half, 1e-6);
  EXPECT_NEAR(of("cross_entropy", half, weighted), of_half / 2, 1e-6);
  EXPECT_NEAR(of("nll_loss", ClassTargets(), weighted), -(ones * x * weights).sum().item<double>() / 5, 1e-6);
  const at::Tensor p = x.sigmoid(), binary = -(ones * p.log() + (1 - ones) * (1 - p).log());
  EXPECT_NEAR(of("binary_cross_entropy_with_logits", ClassTargets(), weighted),
              (binary * weights).sum().item<double>() / 2, 1e-6);
  EXPECT_NEAR(of("mse_loss", ClassTargets(), sum), (x - ones).square().sum().item<double>(), 1e-6);
}

TEST(ClassifierLoss, OptionsThatALossLacksAreNamed) {
  const auto error = [](const char* name, const ClassifierLossOptions& options) {
    return std::string(ClassifierLossByName(name, options).status().message());
  };
  EXPECT_EQ(error("mse_loss", {.class_weights = {1}}), "class_weights: `mse_loss` has none");
  EXPECT_EQ(error("nll_loss", {.label_smoothing = 0.1}), "label_smoothing: `nll_loss` has none");
  EXPECT_EQ(error("dice_loss", {.sum = true}), "loss_reduction: sum: `dice_loss` has none");
}

TEST(ClassifierLoss, UnknownNamesAreListed) {
  EXPECT_THAT(std::string(ClassifierLossByName("mse_los").status().message()), HasSubstr("did you mean `mse_loss`?"));
}

}  // namespace
}  // namespace composer
