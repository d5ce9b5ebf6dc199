// Compares learning rates as the steps of a run get them with real runs of Composer (tests/golden/schedulers.json).
// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/apply_schedulers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/optim/optimizer_golden.h"
#include "tests/trainer/optim/schedule_golden.h"
#include "trainer/optim/sgd.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr int64_t kSamples = 4;

at::Tensor Param() { return torch::zeros({1}).requires_grad_(true); }

// Returns the schedulers of a row of `stepped`, with Composer's choice of when they step.
SchedulerList SchedulersOf(const Json& row) {
  const bool has_torch = !row["torch"].is_null();
  const bool every_batch = row["every_batch"].is_null() ? !has_torch : row["every_batch"].get<bool>();
  SchedulerList schedulers;
  if (!row["composer"].is_null()) {
    ScheduleSpec spec = ComposerSpecOf(row["composer"]["scheduler"], row["composer"]["args"]);
    spec.every_epoch = !every_batch;
    schedulers.push_back(MakeScheduler(spec));
  }
  if (has_torch) {
    TorchScheduleSpec spec = TorchSpecOf(row["torch"]["scheduler"], row["torch"]["args"]);
    spec.every_batch = every_batch;
    schedulers.push_back(MakeTorchScheduler(spec));
  }
  return schedulers;
}

// Returns the learning rates of a run's batches, with composer_compat.
std::vector<double> LearningRates(const SchedulerList& schedulers, int64_t batches_per_epoch, int64_t epochs) {
  SgdOptimizer optimizer(OneGroup({Param()}, 1, 0), {});
  const ScheduleContext context{Time::Epochs(epochs), batches_per_epoch, 1};
  EXPECT_TRUE(CheckSchedulers(schedulers, context, optimizer).ok());
  std::vector<double> lrs;
  for (int64_t batch = 0; batch < batches_per_epoch * epochs; ++batch) {
    const Timestamp now = AtBatch(batch, batches_per_epoch, kSamples, 0);
    const Timestamp before = AtBatch(std::max<int64_t>(batch - 1, 0), batches_per_epoch, kSamples, 0);
    ApplySchedulers(schedulers, now, before, context, optimizer);
    lrs.push_back(optimizer.groups()[0].lr);
  }
  return lrs;
}

TEST(ApplySchedulersTest, ComposerCompatIsComposersRun) {
  const Json golden = ReadGolden("schedulers");
  ASSERT_EQ(golden["lag"].size(), 3u);
  for (const Json& row : golden["lag"]) {
    SchedulerList schedulers;
    schedulers.push_back(MakeScheduler(ComposerSpecOf(row["scheduler"], row["args"])));
    const std::vector<double> lrs = LearningRates(schedulers, 6, 1);
    for (size_t i = 0; i < lrs.size(); ++i) EXPECT_NEAR(lrs[i], row["lr_used"][i].get<double>(), 1e-12) << row << i;
  }
  ASSERT_EQ(golden["stepped"].size(), 6u);
  for (const Json& row : golden["stepped"]) {
    const std::vector<double> lrs = LearningRates(SchedulersOf(row), 4, 3);
    for (size_t i = 0; i < lrs.size(); ++i) EXPECT_NEAR(lrs[i], row["lr_used"][i].get<double>(), 1e-12) << row << i;
  }
}

TEST(ApplySchedulersTest, StartOfEpochTakesBackTheEpochsCounts) {
  const Timestamp start = StartOfEpoch(AtBatch(7, 4, 16, 100));
  EXPECT_EQ(start.epoch, 1);
  EXPECT_EQ(start.batch, 4);
  EXPECT_EQ(start.sample, 64);
  EXPECT_EQ(start.token, 400);
  EXPECT_EQ(start.batch_in_epoch, 0);
}

TEST(ApplySchedulersTest, AbsoluteLearningRatesAreThoseOfEachGroup) {
  std::vector<ParamGroup> groups = OneGroup({Param()}, 1, 0);
  for (const double lr : {0.5, 0.5, 0.0}) groups.push_back(OneGroup({Param()}, lr, 0)[0]);
  SgdOptimizer optimizer(groups, {});
  TorchScheduleSpec cosine;
  cosine.curve = TorchCurve::kCosine;
  cosine.t_max = 10;
  cosine.eta_min = 0.1;
  ScheduleSpec half = ScheduleByName("constant").value();
  half.alpha_i = 0.5;
  SchedulerList schedulers;
  schedulers.push_back(MakeTorchScheduler(cosine));
  schedulers.push_back(MakeScheduler(half));
  const ScheduleContext context{Time::Epochs(20), 1, 1};
  EXPECT_THAT(std::string(CheckSchedulers(schedulers, context, optimizer).message()),
              HasSubstr("eta_min: 0.1, must be 0 where the optimizer's lr is 0"));
  optimizer.groups().pop_back();
  EXPECT_TRUE(CheckSchedulers(schedulers, context, optimizer).ok());
  const Timestamp now = AtBatch(5, 1);
  ApplySchedulers(schedulers, now, std::nullopt, context, optimizer);
  EXPECT_NEAR(optimizer.groups()[0].lr, 0.5 * (0.1 + 0.9 / 2), 1e-12);
  EXPECT_NEAR(optimizer.groups()[1].lr, 0.5 * (0.1 + 0.4 / 2), 1e-12);
  EXPECT_EQ(optimizer.groups()[2].lr, optimizer.groups()[1].lr);
}

TEST(ApplySchedulersTest, OneCycleMovesTheMomentumOrRefuses) {
  OneCycleSpec spec;
  spec.max_lr = 0.4;
  SchedulerList schedulers;
  schedulers.push_back(MakeOneCycleScheduler(spec));
  const ScheduleContext context{Time::Epochs(10), 1, 1};
  SgdOptimizer without(OneGroup({Param()}, 0.1, 0), {}), with(OneGroup({Param()}, 0.1, 0), {0.9});
  EXPECT_THAT(std::string(CheckSchedulers(schedulers, context, without).message()),
              HasSubstr("cycle_momentum: SGD has no momentum to cycle"));
  ASSERT_TRUE(CheckSchedulers(schedulers, context, with).ok());
  ApplySchedulers(schedulers, {}, std::nullopt, context, with);
  EXPECT_NEAR(with.groups()[0].momentum, 0.95, 1e-12);
  EXPECT_NEAR(with.groups()[0].lr, 0.4 / 25, 1e-12);
  const Timestamp peak = AtBatch(2, 1);  // 0.3 * 10 - 1
  ApplySchedulers(schedulers, peak, std::nullopt, context, with);
  EXPECT_NEAR(with.groups()[0].momentum, 0.85, 1e-12);
  EXPECT_NEAR(with.groups()[0].lr, 0.4, 1e-12);
}

TEST(ApplySchedulersTest, WithoutSchedulersNothingIsWritten) {
  SgdOptimizer optimizer(OneGroup({Param()}, 0.1, 0), {});
  optimizer.groups()[0].lr = 0.7;
  ApplySchedulers({}, {}, std::nullopt, {}, optimizer);
  EXPECT_EQ(optimizer.groups()[0].lr, 0.7);
}

}  // namespace
}  // namespace composer
