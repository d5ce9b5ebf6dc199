// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/callbacks/lr_monitor.h"
#include "trainer/callbacks/memory_monitor.h"
#include "trainer/callbacks/nan_monitor.h"
#include "trainer/callbacks/runtime_estimator.h"
#include "trainer/callbacks/speed_monitor.h"
#include "trainer/callbacks/throttle.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MonitorTest : public CallbackTest {};

TEST_F(MonitorTest, SpeedIsThatOfTheLastWindow) {
  SpeedMonitor monitor({.window_size = 2}, clock_);
  state_.world_size = 4;
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Step(monitor, absl::Seconds(100), 8, 80);  // slow; leaves the window
  Step(monitor, absl::Seconds(2), 8, 80);
  EXPECT_TRUE(std::isnan(logger_.Last("throughput/batches_per_sec")));
  Step(monitor, absl::Seconds(2), 8, 80);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/batches_per_sec"), 0.5);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/samples_per_sec"), 4);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/tokens_per_sec"), 40);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/device/batches_per_sec"), 0.125);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/device/tokens_per_sec"), 10);
  Step(monitor, absl::Seconds(6), 8, 80);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/batches_per_sec"), 0.25);
  EXPECT_TRUE(std::isnan(logger_.Last("throughput/flops_per_sec")));
}

TEST_F(MonitorTest, TimesAreHoursAndEvaluationSurvivesAResume) {
  SpeedMonitor first({}, clock_);
  ASSERT_TRUE(Fire(first, Event::kFitStart).ok());
  Evaluate(first, absl::Minutes(30));
  SpeedMonitor second({}, clock_);
  ASSERT_TRUE(second.LoadState(first.SaveState()).ok());
  ASSERT_TRUE(Fire(second, Event::kFitStart).ok());
  Evaluate(second, absl::Minutes(30));
  Step(second, absl::Hours(2));
  EXPECT_DOUBLE_EQ(logger_.Last("time/train"), 2);
  EXPECT_DOUBLE_EQ(logger_.Last("time/val"), 1);
  EXPECT_DOUBLE_EQ(logger_.Last("time/total"), 3);
  EXPECT_TRUE(std::isnan(logger_.Last("throughput/tokens_per_sec")));
}

TEST_F(MonitorTest, BadSavedStateIsRefusedByName) {
  SpeedMonitor monitor({}, clock_);
  EXPECT_EQ(monitor.LoadState("[1").message(), "saved state: not a JSON object");
  EXPECT_EQ(monitor.LoadState(R"({"total_eval_seconds":"1"})").message(),
            "saved state: total_eval_seconds is missing or no number");
}

TEST_F(MonitorTest, RemainingTimeSkipsTheFirstBatchAndAddsEvaluations) {
  RuntimeEstimator estimator({}, clock_);  // 2 epochs of 4 batches
  ASSERT_TRUE(Fire(estimator, Event::kFitStart).ok());
  Step(estimator, absl::Hours(50));
  EXPECT_TRUE(std::isnan(logger_.Last("time/remaining_estimate")));
  Step(estimator, absl::Hours(1));
  EXPECT_DOUBLE_EQ(logger_.Last("time/remaining_estimate"), 6);
  Advance(absl::Hours(1));
  Step(estimator, absl::Hours(1));
  EXPECT_DOUBLE_EQ(logger_.Last("time/remaining_estimate"), 4);
  state_.timestamp.ToNextEpoch();
  Evaluate(estimator, absl::Hours(3));  // at half of the run: one more such to come
  Step(estimator, absl::Hours(1));
  EXPECT_DOUBLE_EQ(logger_.Last("time/remaining_estimate"), 3 + 3);

  RuntimeEstimator resumed({.skip_batches = 0}, clock_);
  ASSERT_TRUE(resumed.LoadState(estimator.SaveState()).ok());
  ASSERT_TRUE(Fire(resumed, Event::kFitStart).ok());
  Step(resumed, absl::Hours(2));  // this process is half as fast
  EXPECT_DOUBLE_EQ(logger_.Last("time/remaining_estimate"), 2 * 2 + 3);
}

class TwoGroups final : public Optimizer {
 public:
  TwoGroups() : Optimizer(std::vector<ParamGroup>(2)) {}
  std::string name() const override { return "DecoupledSGDW"; }
  void Step() override {}
  NamedTensors state() override { return {}; }
};

TEST_F(MonitorTest, LearningRatesAreLoggedByGroup) {
  LRMonitor monitor;
  state_.optimizer = std::make_unique<TwoGroups>();
  state_.optimizer->groups()[0].lr = 0.5;
  state_.optimizer->groups()[1].lr = 0.25;
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  EXPECT_TRUE(std::isnan(logger_.Last("lr-DecoupledSGDW/group0")));
  Step(monitor, absl::Seconds(1));
  EXPECT_EQ(logger_.Last("lr-DecoupledSGDW/group0"), 0.5);
  EXPECT_EQ(logger_.Last("lr-DecoupledSGDW/group1"), 0.25);
}

TEST(ResidentMemoryTest, IsParsedFromProc) {
  const auto memory =
      ParseResidentMemory("900 250 30 1 0 200 0\n", "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", 4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->current_bytes, 250 * 4096);
  EXPECT_EQ(memory->peak_bytes, 2048 * 1024);
  EXPECT_EQ(ParseResidentMemory("", "VmHWM: 1 kB", 4096).status().message(), "/proc/self/statm has no resident pages");
  EXPECT_EQ(ParseResidentMemory("1 2", "VmHWM: x kB", 4096).status().message(), "/proc/self/status has no VmHWM");
}

TEST_F(MonitorTest, MemoryIsReadEveryInterval) {
  MemoryMonitor monitor({.interval = 2});
  Step(monitor, absl::Seconds(1));
  EXPECT_TRUE(std::isnan(logger_.Last("memory/current_resident_mem")));
  Step(monitor, absl::Seconds(1));
  const double current = logger_.Last("memory/current_resident_mem"), peak = logger_.Last("memory/peak_resident_mem");
  EXPECT_GT(current, 0.001);  // this program, in GB
  EXPECT_LT(current, 16);
  // The kernel batches the counters of current by a few pages a thread.
  EXPECT_GE(peak, 0.9 * current);
}

TEST_F(MonitorTest, ALossThatIsNoNumberStopsTheRun) {
  NaNMonitor monitor;
  state_.timestamp.batch = 6;
  state_.step.loss = 3.5;
  EXPECT_TRUE(Fire(monitor, Event::kAfterTrainBatch).ok());
  state_.step.loss = NAN;
  const absl::Status status = Fire(monitor, Event::kAfterTrainBatch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the loss of batch 7 (epoch 0) is NaN; try a lower"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("fp32")));
  state_.precision = Precision::kAmpBf16;
  state_.step.loss = INFINITY;
  EXPECT_THAT(std::string(Fire(monitor, Event::kAfterTrainBatch).message()), HasSubstr("infinite; try"));
  EXPECT_THAT(std::string(Fire(monitor, Event::kAfterTrainBatch).message()), HasSubstr("precision: fp32"));
}

TEST_F(MonitorTest, ThrottleSleepsAfterEachBatch) {
  Throttle throttle({.duration = absl::Milliseconds(250)}, clock_);
  const absl::Time start = clock_.Now();
  Step(throttle, absl::Seconds(1));
  Step(throttle, absl::Seconds(1));
  EXPECT_EQ(clock_.Now() - start, absl::Milliseconds(500));
}

}  // namespace
}  // namespace composer
