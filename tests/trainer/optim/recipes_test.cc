// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainer/core/torch_status.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

TEST(Recipes, HaveTheNamesRatesAndDecaysOfTheYamlKeys) {
  const struct {
    const char* name;
    OptimizerFactory make;
    double lr, weight_decay;
  } cases[] = {
      {"Adam", Adam(0.1), 0.1, 0},
      {"AdamW", AdamW(0.02), 0.02, 1e-2},
      {"DecoupledAdamW", DecoupledAdamW(0.02), 0.02, 1e-5},
      {"SGD", SGD(0.5, {.momentum = 0.9}), 0.5, 0},
      {"DecoupledSGDW", DecoupledSGDW(0.5), 0.5, 0},
      {"RMSprop", RMSprop(0.01), 0.01, 0},
      {"Adagrad", Adagrad(0.01), 0.01, 0},
      {"Adadelta", Adadelta(1.0), 1, 0},
      {"Adamax", Adamax(2e-3), 2e-3, 0},
      {"NAdam", NAdam(2e-3), 2e-3, 0},
      {"RAdam", RAdam(1e-3), 1e-3, 0},
      {"ASGD", ASGD(0.01), 0.01, 0},
      {"Adafactor", Adafactor(0.01), 0.01, 0},
      {"Rprop", Rprop(0.01), 0.01, 0},
      {"Lion", Lion(1e-4), 1e-4, 0},
      {"AdamW", AdamW({.lr = 0.3, .weight_decay = 0.2}), 0.3, 0.2},
      {"Muon", Muon(), MuonGroupOptions().lr, MuonGroupOptions().weight_decay},
  };
  for (const auto& c : cases) {
    const std::shared_ptr<Model> model = MakeMlp({4, 8, 2});
    const std::unique_ptr<Optimizer> optimizer = c.make(*model);
    EXPECT_EQ(optimizer->name(), c.name);
    ASSERT_FALSE(optimizer->groups().empty()) << c.name;
    EXPECT_EQ(optimizer->groups()[0].lr, c.lr) << c.name;
    EXPECT_EQ(optimizer->groups()[0].weight_decay, c.weight_decay) << c.name;
  }
}

TEST(Recipes, RefuseWhatTheOptimizerRefuses) {
  const std::shared_ptr<Model> model = MakeMlp({4, 8, 2});
  EXPECT_THROW(AdamW(0.1, {.beta1 = 1.5})(*model), c10::ValueError);
  EXPECT_THROW(AdamW(-0.1)(*model), StatusError);
}

TEST(Recipes, SchedulesHaveTheirCurve) {
  const ScheduleContext context = {.max_duration = Time::Batches(100), .batches_per_epoch = 10};
  Timestamp halfway;
  halfway.batch = 50;
  const struct {
    std::unique_ptr<Scheduler> scheduler;
    ScheduleSpec same;
  } cases[] = {
      {ConstantSchedule({.alpha_i = 0.5}), {.curve = Curve::kConstant, .alpha_i = 0.5}},
      {LinearSchedule(), {.curve = Curve::kLinear}},
      {CosineAnnealing({.alpha_f = 0.1}), {.curve = Curve::kCosine, .alpha_f = 0.1}},
      {PolynomialSchedule(), {.curve = Curve::kPolynomial}},
      {StepSchedule({.period = Time::Batches(20)}), {.curve = Curve::kStep, .period = Time::Batches(20)}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.scheduler->Factor(halfway, context), *ScheduleFactor(c.same, halfway, context));
  }
}

}  // namespace
}  // namespace composer
