// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/auroc.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/class_counts.h"
#include "trainer/metrics/confusion_matrix.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/f1_score.h"
#include "trainer/metrics/loss_metric.h"
#include "trainer/metrics/metric_by_name.h"
#include "trainer/metrics/metric_sums.h"
#include "trainer/metrics/segmentation.h"
#include "trainer/metrics/ssim.h"

namespace composer {
namespace {

Batch Targets(at::Tensor targets) {
  Batch batch;
  batch.targets = std::move(targets);
  batch.num_samples = batch.targets.size(0);
  return batch;
}

MetricList All() {
  MetricList metrics;
  metrics.push_back(MakeMulticlassAccuracy());
  metrics.push_back(MakeMaskedAccuracy());
  metrics.push_back(MakeCrossEntropy());
  metrics.push_back(MakeLanguageCrossEntropy());
  metrics.push_back(MakeLanguagePerplexity());
  metrics.push_back(MakeMIoU(4, -100));
  metrics.push_back(MakeDice(4));
  metrics.push_back(MakeMulticlassF1Score(4, F1Average::kMacro, -100));
  metrics.push_back(MakeTopAccuracy(2));
  metrics.push_back(MakeMulticlassConfusionMatrix(4, -100));
  metrics.push_back(MakeLossMetric(
      [](const at::Tensor& outputs, const at::Tensor& targets) { return (outputs.sum(1) * targets).mean(); }));
  return metrics;
}

// Expects NaN, except for F1, which is 0 as in torchmetrics.
void ExpectOfNothing(Metric& metric) {
  if (metric.name() == "MulticlassF1Score") {
    EXPECT_EQ(metric.Compute(), 0);
  } else {
    EXPECT_TRUE(std::isnan(metric.Compute())) << metric.name();
  }
}

// The values are torchmetrics 1.7.4's.
TEST(BinaryAUROC, IsTheShareOfPairsInTheRightOrder) {
  const auto area = [](const std::vector<float>& scores, const std::vector<int64_t>& targets,
                       std::optional<int64_t> ignore_index = std::nullopt) {
    const auto metric = MakeBinaryAUROC(ignore_index);
    const auto half = static_cast<int64_t>(scores.size()) / 2;
    const at::Tensor all = torch::tensor(scores), truth = torch::tensor(targets);
    metric->Update(all.slice(0, 0, half), Targets(truth.slice(0, 0, half)));
    metric->Update(torch::stack({-all, torch::zeros_like(all)}, 1).slice(0, half), Targets(truth.slice(0, half)));
    return metric->Compute();
  };
  const std::vector<float> scores = {0.5f, -1, 2, 0.5f, -3, 1, 0, 2};
  EXPECT_EQ(area(scores, {1, 0, 1, 0, 0, 1, 1, 0}), 0.6875);
  EXPECT_NEAR(area(scores, {1, -1, 1, 0, 0, 1, -1, 0}, -1), 2.0 / 3, 1e-12);
  EXPECT_EQ(area({1, 1, 1, 1}, {0, 1, 0, 1}), 0.5);
  EXPECT_EQ(area({3, 2, 1, 0}, {1, 1, 0, 0}), 1);
  EXPECT_EQ(area({0, 1, 2, 3}, {1, 1, 0, 0}), 0);
  EXPECT_EQ(area({0, 1}, {1, 1}), 0);
  EXPECT_THROW(area({0, 1}, {1, 2}), c10::ValueError);
}

// The values are torchmetrics 1.7.4's; all wrong, or one class only, are scikit-learn's.
TEST(Correlations, AreTorchmetricsOnes) {
  const at::Tensor x = torch::tensor({0.1, 0.4, 0.35, 0.8, 0.8, 2.5, -1.0, 0.0}).unsqueeze(1);
  const at::Tensor y = torch::tensor({0.0, 0.5, 0.5, 1.0, 2.0, 2.0, -3.0, 0.25});
  const auto pearson = MakePearsonCorrCoef(), spearman = MakeSpearmanCorrCoef();
  for (const auto& metric : {pearson.get(), spearman.get()}) {
    metric->Update(x.slice(0, 0, 3), Targets(y.slice(0, 0, 3)));
    metric->Update(x.slice(0, 3), Targets(y.slice(0, 3)));
  }
  EXPECT_NEAR(pearson->Compute(), 0.8424428105354309, 1e-6);
  EXPECT_NEAR(spearman->Compute(), 0.9515324234962463, 1e-6);
  pearson->Reset();
  pearson->Update(torch::ones({3}), Targets(torch::arange(3)));
  EXPECT_TRUE(std::isnan(pearson->Compute()));

  const at::Tensor truth = torch::tensor({0, 1, 2, 2, 1, 0, 1, 1}), guess = torch::tensor({0, 2, 2, 1, 1, 0, 0, 1});
  const auto of = [](std::unique_ptr<Metric> metric, const at::Tensor& predicted, const at::Tensor& targets,
                     int classes) {
    metric->Update(torch::one_hot(predicted, classes).to(at::kFloat), Targets(targets));
    return metric->Compute();
  };
  EXPECT_NEAR(of(MakeMulticlassMatthewsCorrCoef(3), guess, truth, 3), 0.4391550123691559, 1e-6);
  const at::Tensor is_true = truth.gt(0).to(at::kLong), is_guessed = guess.gt(0).to(at::kLong);
  EXPECT_NEAR(of(MakeBinaryMatthewsCorrCoef(), is_guessed, is_true, 2), 0.745356023311615, 1e-6);
  EXPECT_EQ(of(MakeBinaryMatthewsCorrCoef(), 1 - is_true, is_true, 2), -1);
  EXPECT_EQ(of(MakeBinaryMatthewsCorrCoef(), is_true, is_true, 2), 1);
  EXPECT_EQ(of(MakeBinaryMatthewsCorrCoef(), torch::ones_like(is_true), is_true, 2), 0);
}

// As in torch.argmax, the first of the largest counts, and NaN is the largest. Covers both paths; int32 targets take
// the other one.
TEST(Accuracy, NaNIsTheLargest) {
  const float nan = std::nanf("");
  const at::Tensor outputs = torch::tensor(
      {{1.f, nan, 9.f}, {nan, nan, 9.f}, {INFINITY, 2.f, nan}, {-INFINITY, -INFINITY, -INFINITY}, {nan, nan, nan}});
  const at::Tensor targets = torch::tensor({1, 0, 2, 0, 0}, torch::kInt64);
  EXPECT_TRUE(outputs.argmax(-1).equal(targets));
  for (const at::ScalarType dtype : {at::kLong, at::kInt}) {
    const auto metric = MakeMulticlassAccuracy();
    metric->Update(outputs, Targets(targets.to(dtype)));
    EXPECT_DOUBLE_EQ(metric->Compute(), 1) << dtype;
  }
}

TEST(Accuracy, CountsRightPredictions) {
  const at::Tensor outputs = torch::tensor({{1.f, 3.f, 2.f}, {5.f, 5.f, 0.f}, {0.f, 1.f, 2.f}});
  const auto metric = MakeMulticlassAccuracy();
  EXPECT_EQ(metric->name(), "MulticlassAccuracy");
  EXPECT_TRUE(std::isnan(metric->Compute()));
  metric->Update(outputs, Targets(torch::tensor({1, 0, 1}, torch::kInt64)));  // among equals the first counts
  EXPECT_DOUBLE_EQ(metric->Compute(), 2.0 / 3);
  metric->Update(outputs.to(torch::kBFloat16), Targets(torch::tensor({0, 1, 2}, torch::kInt64)));
  EXPECT_DOUBLE_EQ(metric->Compute(), 3.0 / 6);
  EXPECT_EQ(metric->sums()[0], 3);
  metric->Reset();
  metric->Update(outputs, Targets(torch::tensor({{0.1f, 0.9f, 0.f}, {0.f, 1.f, 0.f}, {0.f, 0.f, 1.f}})));
  EXPECT_DOUBLE_EQ(metric->Compute(), 2.0 / 3);
}

TEST(Accuracy, LeavesOutMaskedTargets) {
  const at::Tensor outputs = torch::tensor({{{1.f, 3.f}, {5.f, 4.f}}, {{0.f, 1.f}, {2.f, 0.f}}});
  const at::Tensor targets = torch::tensor({{1, -100}, {0, 0}}, torch::kInt64);
  const auto masked = MakeMaskedAccuracy();
  masked->Update(outputs, Targets(targets));
  EXPECT_DOUBLE_EQ(masked->Compute(), 2.0 / 3);
  const auto custom = MakeMaskedAccuracy(0);
  custom->Update(outputs, Targets(targets));
  EXPECT_DOUBLE_EQ(custom->Compute(), 1.0 / 2);
  EXPECT_THROW(masked->Update(outputs, Targets(targets.flatten())), c10::ValueError);
}

TEST(CrossEntropy, HasItsClosedForm) {
  const at::Tensor outputs = torch::tensor({{0.f, std::log(3.f)}, {0.f, 0.f}});
  const auto metric = MakeCrossEntropy();
  metric->Update(outputs, Targets(torch::tensor({1, 0}, torch::kInt64)));
  EXPECT_NEAR(metric->Compute(), (std::log(4.0 / 3) + std::log(2.0)) / 2, 1e-6);
  metric->Reset();
  metric->Update(outputs, Targets(torch::tensor({{0.5f, 0.5f}, {1.f, 0.f}})));
  EXPECT_NEAR(metric->Compute(), (0.5 * std::log(4.0) + 0.5 * std::log(4.0 / 3) + std::log(2.0)) / 2, 1e-6);
  const auto perplexity = MakeLanguagePerplexity();
  perplexity->Update(torch::zeros({2, 3, 8}), Targets(torch::zeros({2, 3}, torch::kInt64)));
  EXPECT_NEAR(perplexity->Compute(), 8, 1e-5);
}

TEST(CrossEntropy, IsNotComputedAgainWhereItIsKnown) {
  torch::manual_seed(5);
  at::Tensor logits = torch::randn({2, 3, 8}), targets = torch::tensor({{1, -100, 7}, {0, 3, -100}});
  const auto known = std::make_shared<KnownLoss>();
  const auto of = [&](const at::Tensor& outputs, const at::Tensor& wanted, std::shared_ptr<const KnownLoss> by) {
    const auto metric = MakeLanguageCrossEntropy(-100, {}, std::move(by));
    metric->Update(outputs, Targets(wanted));
    EXPECT_EQ(metric->sums()[1], wanted.ne(-100).sum().item<double>());
    return metric->Compute();
  };
  const double computed = of(logits, targets, nullptr);
  EXPECT_EQ(of(logits, targets, known), computed) << "nothing is known yet";
  known->Set(logits, targets, torch::tensor(0.25));
  EXPECT_EQ(of(logits.detach(), targets, known), 0.25);
  EXPECT_EQ(of(logits.clone(), targets, known), computed) << "other outputs";
  EXPECT_EQ(of(logits, targets.clone(), known), computed) << "other targets";
  EXPECT_EQ(of(logits.slice(0, 0, 1), targets.slice(0, 0, 1), known),
            of(logits.slice(0, 0, 1), targets.slice(0, 0, 1), nullptr));
  logits.add_(0);
  EXPECT_EQ(of(logits, targets, known), computed) << "changed since";
  known->Set(logits, targets, torch::tensor(0.25));
  logits = logits.clone();
  EXPECT_FALSE(known->Of(logits, targets).defined()) << "the first ones are gone";
  const at::Tensor none = torch::full({2, 3}, -100);
  known->Set(logits, none, torch::tensor(std::nanf("")));
  EXPECT_TRUE(std::isnan(of(logits, none, known)));
  const auto metric = MakeLanguageCrossEntropy(-100, {}, known);
  metric->Update(logits, Targets(none));
  metric->Update(logits, Targets(targets));
  EXPECT_NEAR(metric->Compute(), computed, 1e-9) << "what does not count adds nothing";
}

// Sums over pieces of any size equal those of the whole.
TEST(Metrics, AreExactOverAnySplit) {
  torch::manual_seed(3);
  const at::Tensor outputs = torch::randn({11, 4});
  at::Tensor targets = torch::randint(4, {11}, torch::kInt64);
  targets[2] = targets[9] = -100;
  MetricList whole = All(), pieces = All(), empty = All();
  for (size_t i = 0; i < whole.size(); ++i) {
    whole[i]->Update(outputs, Targets(targets));
    for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 1}, {1, 1}, {1, 8}, {8, 11}}) {
      pieces[i]->Update(outputs.slice(0, begin, end), Targets(targets.slice(0, begin, end)));
    }
    EXPECT_NEAR(pieces[i]->Compute(), whole[i]->Compute(), 1e-6) << whole[i]->name();
    EXPECT_EQ(pieces[i]->sums().size(), whole[i]->sums().size());
    EXPECT_EQ(pieces[i]->sums()[1], whole[i]->sums()[1]);
    empty[i]->Update(outputs.slice(0, 0, 0), Targets(targets.slice(0, 0, 0)));
    ExpectOfNothing(*empty[i]);
  }
}

// The tensor path (GPU) must agree with the plain loop; int32 targets take it on CPU.
TEST(Metrics, TensorPathAgreesWithTheLoop) {
  torch::manual_seed(4);
  const at::Tensor outputs = torch::randn({50, 7});
  at::Tensor targets = torch::randint(7, {50}, torch::kInt64);
  targets[5] = -100;
  const auto loop = MakeMaskedAccuracy(), tensor = MakeMaskedAccuracy();
  loop->Update(outputs, Targets(targets));
  tensor->Update(outputs, Targets(targets.to(torch::kInt32)));
  EXPECT_EQ(loop->sums(), tensor->sums());
  MetricSums sums;
  sums.AddTensor(torch::tensor({1.0, 2.0}, torch::kDouble));
  sums.AddTensor(torch::tensor({2, 2}, torch::kInt64));
  EXPECT_EQ(sums.Ratio(), 0.75);
}

// Ranks add their sums; the value equals that of one rank with everything.
TEST(Metrics, AreExactOverRanks) {
  torch::manual_seed(7);
  const at::Tensor outputs = torch::randn({9, 4}), targets = torch::randint(4, {9}, torch::kInt64);
  MetricList whole = All(), first = All(), second = All();
  for (size_t i = 0; i < whole.size(); ++i) {
    whole[i]->Update(outputs, Targets(targets));
    first[i]->Update(outputs.slice(0, 0, 2), Targets(targets.slice(0, 0, 2)));
    second[i]->Update(outputs.slice(0, 2), Targets(targets.slice(0, 2)));
    for (size_t s = 0; s < first[i]->sums().size(); ++s) first[i]->sums()[s] += second[i]->sums()[s];
    EXPECT_NEAR(first[i]->Compute(), whole[i]->Compute(), 1e-5) << whole[i]->name();
    first[i]->Reset();
    ExpectOfNothing(*first[i]);
  }
}

TEST(ClassCounts, HaveTheirOwnIgnoredAndStrayTargets) {
  // Predictions are 0, 1, 1, 2, 2; targets are right, wrong, ignored, stray, right.
  const at::Tensor outputs = torch::eye(3).index_select(0, torch::tensor({0, 1, 1, 2, 2}));
  const at::Tensor targets = torch::tensor({0, 0, -1, 255, 2}, torch::kInt64);
  EXPECT_TRUE(torch::equal(CountClasses("M", outputs, targets, -1),
                           torch::tensor({{1, 0, 1}, {1, 1, 2}, {2, 0, 1}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(CountClasses("M", outputs, targets, std::nullopt),
                           torch::tensor({{1, 0, 1}, {1, 2, 2}, {2, 0, 1}}, torch::kInt64)));
  EXPECT_THROW(CountClasses("M", outputs, targets.slice(0, 1), {}), c10::ValueError);
  EXPECT_THROW(MakeMIoU(4)->Update(outputs, Targets(targets)), c10::ValueError);  // 3 classes
}

TEST(Segmentation, HasItsClosedForm) {
  const at::Tensor outputs = torch::eye(3).index_select(0, torch::tensor({0, 0, 1, 1}));
  const auto batch = Targets(torch::tensor({0, 1, 1, 1}, torch::kInt64));
  const auto miou = MakeMIoU(3), dice = MakeDice(3);
  miou->Update(outputs, batch);
  EXPECT_NEAR(miou->Compute(), 100 * (1.0 / 2 + 2.0 / 3) / 2, 1e-9);  // class 2 does not occur
  dice->Update(outputs, batch);
  EXPECT_NEAR(dice->Compute(), 100 * (4.0 / 5 + 1) / 2, 1e-9);  // class 0 is the background; class 2 is right
  EXPECT_THROW(MakeDice(1), c10::ValueError);
}

// Images have their classes in dimension 1.
TEST(CrossEntropy, AndAccuracyTakeImages) {
  torch::manual_seed(8);
  const at::Tensor images = torch::randn({2, 5, 3, 4}), targets = torch::randint(5, {2, 3, 4}, torch::kInt64);
  const at::Tensor rows = images.permute({0, 2, 3, 1}).reshape({24, 5});
  for (const char* name : {"CrossEntropy", "MulticlassAccuracy", "MaskedAccuracy"}) {
    const auto of_images = MetricByName(name).value(), of_rows = MetricByName(name).value();
    of_images->Update(images, Targets(targets));
    of_rows->Update(rows, Targets(targets.flatten()));
    EXPECT_NEAR(of_images->Compute(), of_rows->Compute(), 1e-6) << name;
  }
}

TEST(LossMetric, IsTheMeanOverSamplesOrBatches) {
  const auto mean = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.mean(); };
  const auto samples = MakeLossMetric(mean), batches = MakeLossMetric(mean, /*batch_mean=*/true);
  for (const auto& [size, value] : std::vector<std::pair<int64_t, double>>{{3, 1.0}, {1, 5.0}}) {
    for (const auto* metric : {&samples, &batches}) {
      (*metric)->Update(torch::full({size}, value), Targets(torch::zeros({size}, torch::kInt64)));
    }
  }
  EXPECT_DOUBLE_EQ(samples->Compute(), 2);
  EXPECT_DOUBLE_EQ(batches->Compute(), 3);
  const auto vector = MakeLossMetric([](const at::Tensor& outputs, const at::Tensor&) { return outputs; });
  EXPECT_THROW(vector->Update(torch::ones({3}), Targets(torch::zeros({3}, torch::kInt64))), c10::ValueError);
}

// The values are torchmetrics 1.7.4's.
TEST(Ssim, IsTorchmetrics) {
  const at::Tensor i = torch::arange(3 * 2 * 16 * 20, at::kDouble);
  const at::Tensor x = torch::sin(i * 0.37).view({3, 2, 16, 20}).to(at::kFloat);
  const at::Tensor y = (0.7 * torch::sin(i * 0.37) + 0.3 * torch::cos(i * 0.11)).view({3, 2, 16, 20}).to(at::kFloat);
  const auto metric = MakeSsim(2);
  metric->Update(x.slice(0, 0, 1), Targets(y.slice(0, 0, 1)));
  metric->Update(x.slice(0, 1), Targets(y.slice(0, 1)));
  EXPECT_NEAR(metric->Compute(), 0.8168013691902161, 2e-6);
  EXPECT_EQ(metric->sums()[1], 3) << "pictures";
  metric->Reset();
  metric->Update(Outputs(Outputs::Named{{"outputs", x}, {"target", x}}), Targets(y));
  EXPECT_NEAR(metric->Compute(), 1, 1e-6) << "an output `target` comes first";
  metric->Reset();
  metric->Update(torch::full_like(x, 0.3), Targets(y));
  EXPECT_NEAR(metric->Compute(), -1.3522377e-05, 1e-6);
  metric->Update(x.slice(0, 0, 0), Targets(y.slice(0, 0, 0)));
  EXPECT_THROW(metric->Update(x.slice(2, 0, 5), Targets(y.slice(2, 0, 5))), c10::ValueError);
  EXPECT_THROW(metric->Update(x, Targets(y.slice(1, 0, 1))), c10::ValueError);
}

// The values are torchmetrics 1.7.4's BLEUScore's.
TEST(Bleu, IsTorchmetrics) {
  const auto batch = [](const std::vector<std::pair<std::string, std::string>>& rows) {
    Batch made;
    for (const auto& [text, answers] : rows) {
      made.texts["generations"].push_back(text);
      made.texts["answers"].push_back(answers);
    }
    return made;
  };
  const std::pair<std::string, std::string> cat = {"the cat  sat on the mat today",
                                                   R"(["the cat is on the mat today", "a cat sat on the mat"])"},
                                            dog = {"there is a dog in the garden",
                                                   R"(["a dog is in the garden", "there is a dog in a garden now"])"},
                                            one = {"one", R"(["two"])"}, same = {"the the the the", R"(["the cat"])"};
  const auto of = [&](const std::vector<Batch>& batches, const AnswerMatchOptions& options = {}) {
    const auto metric = MakeBleu(options);
    for (const Batch& each : batches) metric->Update(Outputs(), each);
    return metric->Compute();
  };
  EXPECT_NEAR(of({batch({cat}), batch({dog, one})}), 0.8265168070793152, 1e-6);
  EXPECT_NEAR(of({batch({cat, dog})}), 0.8408964276313782, 1e-6);
  EXPECT_EQ(of({batch({same})}), 0);
  EXPECT_TRUE(std::isnan(of({})));
  EXPECT_NEAR(of({batch({{"so # " + cat.first + "\nQ", cat.second}, dog})}, {{"\nQ"}, "#"}), 0.8408964276313782, 1e-6);
  EXPECT_THROW(of({Batch()}), c10::ValueError);
  const auto first = MakeBleu(), second = MakeBleu();  // two ranks
  first->Update(Outputs(), batch({cat}));
  second->Update(Outputs(), batch({dog, one}));
  for (size_t i = 0; i < first->sums().size(); ++i) first->sums()[i] += second->sums()[i];
  EXPECT_NEAR(first->Compute(), 0.8265168070793152, 1e-6);
}

// The counts are torchmetrics 1.7.4's.
TEST(ConfusionMatrix, IsTorchmetrics) {
  const at::Tensor truth = torch::tensor({0, 1, 2, 2, 1, 0, 1, 1}), guess = torch::tensor({0, 2, 2, 1, 1, 0, 0, 1});
  const at::Tensor outputs = torch::one_hot(guess, 3).to(at::kFloat);
  const auto metric = MakeMulticlassConfusionMatrix(3), partly = MakeMulticlassConfusionMatrix(3, 1);
  EXPECT_TRUE(std::isnan(metric->Compute()));
  metric->Update(outputs, Targets(truth));
  partly->Update(outputs, Targets(truth));
  const TableMetric::Table table = metric->ToTable();
  EXPECT_THAT(table.columns, ::testing::ElementsAre("target", "0", "1", "2"));
  EXPECT_EQ(table.rows,
            (std::vector<std::vector<std::string>>{{"0", "2", "0", "0"}, {"1", "1", "2", "1"}, {"2", "0", "1", "1"}}));
  EXPECT_DOUBLE_EQ(metric->Compute(), 5.0 / 8);
  EXPECT_EQ(partly->ToTable().rows[1], (std::vector<std::string>{"1", "0", "0", "0"}));
  // Pictures, dense targets, and a target that is not a class.
  metric->Reset();
  metric->Update(outputs.view({2, 4, 3}).permute({0, 2, 1}), Targets(truth.view({2, 4})));
  metric->Update(outputs, Targets(torch::one_hot(truth, 3).to(at::kFloat)));
  metric->Update(outputs, Targets(torch::full_like(truth, 7)));
  EXPECT_EQ(metric->ToTable().rows[1], (std::vector<std::string>{"1", "2", "4", "2"}));
  EXPECT_THROW(metric->Update(outputs.slice(1, 0, 2), Targets(truth)), c10::ValueError);
}

TEST(Accuracy, CountsTheTargetAmongTheLikeliest) {
  const at::Tensor outputs = torch::tensor({{3.f, 1.f, 2.f, 0.f}, {1.f, 1.f, 1.f, 1.f}, {0.f, 1.f, 2.f, 3.f}});
  const auto of = [&](int64_t k, const std::vector<int64_t>& targets) {
    const auto metric = MakeTopAccuracy(k);
    metric->Update(outputs, Targets(torch::tensor(targets)));
    return metric->sums()[0];
  };
  EXPECT_EQ(of(2, {2, 1, 1}), 2);
  EXPECT_EQ(of(2, {1, 2, 3}), 1) << "among equals the first ones count";
  EXPECT_EQ(of(4, {3, 3, -1}), 2);
  EXPECT_EQ(MakeTopAccuracy(3)->name(), "MulticlassAccuracyTop3");
}

TEST(MetricByName, KnowsAllAndNamesMistakes) {
  MetricOptions options;
  options.num_classes = 3;
  options.data_range = 1;
  options.loss = [](const at::Tensor& outputs, const at::Tensor&) { return outputs.mean(); };
  EXPECT_EQ(MetricNames().size(), 21u);
  for (const std::string& name : MetricNames()) {
    const auto metric = MetricByName(name, options);
    ASSERT_TRUE(metric.ok()) << metric.status();
    EXPECT_EQ((*metric)->name(), name);
  }
  const auto message = [](const char* name) { return std::string(MetricByName(name).status().message()); };
  EXPECT_THAT(message("CrosEntropy"), ::testing::HasSubstr("did you mean `CrossEntropy`?"));
  EXPECT_EQ(message("MIoU"), "num_classes: 0, MIoU needs at least 1");
  EXPECT_EQ(message("LossMetric"), "loss: required by LossMetric");
  EXPECT_THAT(message("SSIM"), ::testing::HasSubstr("data_range: required by SSIM"));
}

// Sums given as tensors are added, whatever their dtype and number.
TEST(MetricSums, HoldAnyNumber) {
  MetricSums sums(5);
  sums.AddTensor(torch::arange(5, torch::kInt64));
  sums.AddTensor(torch::ones({5}, torch::kFloat));
  EXPECT_THAT(sums.Get(), ::testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THROW(sums.AddTensor(torch::ones({4})), c10::Error);
  sums.Reset();
  EXPECT_THAT(sums.Get(), ::testing::Each(0));
}

}  // namespace
}  // namespace composer
