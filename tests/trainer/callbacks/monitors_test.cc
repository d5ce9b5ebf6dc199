// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "fault/throttle.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/callbacks/monitors/device_peaks.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/memory_monitor.h"
#include "trainer/callbacks/monitors/nan_monitor.h"
#include "trainer/callbacks/monitors/runtime_estimator.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/throughput.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MonitorTest : public CallbackTest {};

TEST_F(MonitorTest, SpeedIsThatOfTheLastWindow) {
  SpeedMonitor monitor({.window_size = 2}, clock_);
  state_.identity.world_size = 4;
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

// A model of 3 operations per sample.
class CountedModel final : public Model {
 public:
  Outputs forward(const Batch& batch) override { return batch.inputs; }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs->sum(); }
  MetricList metrics(bool) const override { return {}; }
  double flops_per_sample() const override { return 3; }
};

TEST_F(MonitorTest, OperationsOfAModelThatKnowsThemAndTheirShareOfThePeak) {
  SpeedMonitor monitor({.window_size = 1, .gpu_flops_available = 60, .time_unit = absl::Minutes(1)}, clock_);
  state_.model = std::make_shared<CountedModel>();
  state_.identity.world_size = 2;
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Evaluate(monitor, absl::Minutes(3));
  Step(monitor, absl::Minutes(1), 8);
  Step(monitor, absl::Seconds(1), 8);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/flops_per_sec"), 24);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/device/flops_per_sec"), 12);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/device/mfu"), 0.2);
  EXPECT_DOUBLE_EQ(logger_.Last("time/train"), 1 + 1.0 / 60);
  EXPECT_DOUBLE_EQ(logger_.Last("time/val"), 3);
}

TEST_F(MonitorTest, OnACpuThereIsNoPeakToCompareWith) {
  SpeedMonitor monitor({.window_size = 1}, clock_);
  state_.model = std::make_shared<CountedModel>();
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Step(monitor, absl::Seconds(1));
  Step(monitor, absl::Seconds(1));
  EXPECT_FALSE(std::isnan(logger_.Last("throughput/flops_per_sec")));
  EXPECT_TRUE(std::isnan(logger_.Last("throughput/device/mfu")));
}

TEST(DevicePeaksTest, GpusAreFoundByTheirNames) {
  const struct {
    const char* name;
    MathType type;
    double peak;  // 0 means not known
  } kCases[] = {{"NVIDIA H100 80GB HBM3", MathType::kBf16, 989.5e12},
                {"NVIDIA H100 PCIe", MathType::kBf16, 756.5e12},
                {"NVIDIA H200", MathType::kTf32, 494.5e12},
                {"NVIDIA A100-SXM4-40GB", MathType::kFp16, 312e12},
                {"NVIDIA A10", MathType::kBf16, 125e12},
                {"NVIDIA A10G", MathType::kBf16, 70e12},
                {"Tesla V100-SXM2-32GB", MathType::kFp16, 125e12},
                {"Tesla V100S-PCIE-32GB", MathType::kFp16, 130e12},
                {"Tesla V100-SXM2-32GB", MathType::kTf32, 15.7e12},
                {"Tesla V100-SXM2-32GB", MathType::kBf16, 0},
                {"Tesla T4", MathType::kFp16, 65e12},
                {"NVIDIA L40S", MathType::kFp32, 91.6e12},
                {"NVIDIA L4", MathType::kFp16, 121e12},
                {"NVIDIA L40", MathType::kFp16, 0},
                {"NVIDIA GeForce GTX 1080", MathType::kFp32, 0},
                {"NVIDIA A100-PCIE-40GB", MathType::kFp8, 0}};
  for (const auto& c : kCases) EXPECT_EQ(PeakFlops(c.name, c.type).value_or(0), c.peak) << c.name;
}

TEST_F(MonitorTest, BadSavedStateIsRefusedByName) {
  SpeedMonitor monitor({}, clock_);
  EXPECT_EQ(monitor.LoadState("[1").message(), "saved state: not a JSON object");
  EXPECT_EQ(monitor.LoadState(R"({"total_eval_seconds":"1"})").message(),
            "saved state: total_eval_seconds is missing or no number");
}

TEST_F(MonitorTest, RemainingTimeInAnotherUnit) {
  RuntimeEstimator estimator({.time_unit = absl::Minutes(1)}, clock_);  // 2 epochs of 4 batches
  ASSERT_TRUE(Fire(estimator, Event::kFitStart).ok());
  Step(estimator, absl::Hours(50));
  Step(estimator, absl::Hours(1));
  EXPECT_DOUBLE_EQ(logger_.Last("time/remaining_estimate"), 6 * 60);
}

TEST(DeviceMemoryMetrics, KeysChooseAndName) {
  DeviceMemory memory;
  memory.active = 2'000'000'000, memory.peak_reserved = 3'000'000'000, memory.alloc_retries = 4;
  EXPECT_EQ(DeviceMemoryMetrics(memory).size(), DeviceMemoryKeys().size());
  const auto chosen = DeviceMemoryMetrics(
      memory, {{"num_alloc_retries", "retries"}, {"active_bytes.all.current", "a"}, {"reserved_bytes.all.peak", "b"}});
  const std::vector<std::pair<std::string, double>> expected = {{"a", 2}, {"b", 3}, {"retries", 4}};
  EXPECT_EQ(chosen, expected);
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
  Evaluate(estimator, absl::Hours(3));  // at half of the run: one more like it is expected
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

TEST_F(MonitorTest, ThroughputIsThatOfTheLastBatches) {
  Throughput throughput;
  ASSERT_TRUE(Fire(throughput, Event::kFitStart).ok());
  const auto step = [&](absl::Duration took) {
    state_.timestamp.ToNextBatch(/*samples=*/8, /*tokens=*/80, took);
    ASSERT_TRUE(Fire(throughput, Event::kBatchEnd).ok());
  };
  step(absl::Seconds(100));  // the first one is slow, and there is nothing to compare it with
  EXPECT_TRUE(std::isnan(logger_.Last("throughput/samples_per_sec")));
  step(absl::Seconds(2));
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/samples_per_sec"), 4);
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/tokens_per_sec"), 40);
  for (size_t i = 0; i < Throughput::kWindow - 1; ++i) step(absl::Seconds(2));
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/samples_per_sec"), 4);
  step(absl::Seconds(1));  // the oldest batch of 2 s leaves the window
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/samples_per_sec"), 8.0 * 50 / (49 * 2 + 1));
  ASSERT_TRUE(Fire(throughput, Event::kFitStart).ok());
  step(absl::Seconds(1000));  // after a resume the window is empty
  EXPECT_DOUBLE_EQ(logger_.Last("throughput/samples_per_sec"), 8.0 * 50 / (49 * 2 + 1));
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

TEST(DeviceMemoryTest, GigabytesWithFiveDigitsUnderComposersNames) {
  DeviceMemory memory;
  memory.allocated = 1'234'567'891, memory.peak_reserved = 80'000'000'000, memory.alloc_retries = 3;
  const auto metrics = DeviceMemoryMetrics(memory);
  ASSERT_EQ(metrics.size(), 9u);
  EXPECT_EQ(metrics[0], (std::pair<std::string, double>("current_allocated_mem", 1.2346)));
  EXPECT_EQ(metrics[7], (std::pair<std::string, double>("peak_reserved_mem", 80)));
  EXPECT_EQ(metrics[8], (std::pair<std::string, double>("alloc_retries", 3)));
  EXPECT_EQ(ReadDeviceMemory(at::kCPU).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(MonitorTest, ADeviceThatIsNotThereIsWarnedOfOnce) {
  MemoryMonitor monitor({.interval = 1});
  state_.identity.device = at::Device(at::kCUDA, 0);
  if (ReadDeviceMemory(state_.identity.device).ok()) GTEST_SKIP() << "there is a GPU";
  ::testing::internal::CaptureStderr();
  Step(monitor, absl::Seconds(1));
  Step(monitor, absl::Seconds(1));
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("memory is not monitored");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("memory is not monitored", first + 1), std::string::npos);
}

TEST_F(MonitorTest, MemoryIsReadEveryInterval) {
  MemoryMonitor monitor({.interval = 2});
  Step(monitor, absl::Seconds(1));
  EXPECT_TRUE(std::isnan(logger_.Last("memory/current_resident_mem")));
  Step(monitor, absl::Seconds(1));
  const double current = logger_.Last("memory/current_resident_mem"), peak = logger_.Last("memory/peak_resident_mem");
  EXPECT_GT(current, 0.001);  // this program, in GB
  EXPECT_LT(current, 16);
  // The kernel batches updates of the current counter by a few pages per thread.
  EXPECT_GE(peak, 0.9 * current);
}

// Ranks that log at every batch, and gather at every second one.
TEST(MemoryMonitorTest, MemoryOverRanksIsGatheredAtItsIntervalAlone) {
  constexpr int kRanks = 3, kBatches = 5;
  ThreadsExchange exchange(kRanks);
  std::vector<MetricHistory> histories(kRanks);
  std::vector<int64_t> collectives(kRanks);
  SpawnRanks(kRanks, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    State state;
    state.identity.rank = rank;
    state.identity.world_size = kRanks;
    Logger logger;
    logger.AddDestination(std::make_unique<InMemoryLogger>(&histories[static_cast<size_t>(rank)]));
    MemoryMonitor monitor({.interval = 1, .dist_aggregate_batch_interval = 2}, &communicator);
    for (int batch = 0; batch < kBatches; ++batch) {
      state.timestamp.ToNextBatch(1, 0, absl::Seconds(1));
      ThrowIfError(monitor.Run(Event::kBatchEnd, state, logger));
      logger.Flush(state.timestamp);
    }
    collectives[static_cast<size_t>(rank)] = communicator.num_collectives();
  });
  EXPECT_THAT(collectives, ::testing::Each(2));
  for (const MetricHistory& history : histories) {
    for (const std::string name : {"memory/current_resident_mem", "memory/peak_resident_mem"}) {
      EXPECT_EQ(history.Values(name).size(), size_t{kBatches});
      const std::vector<double> avg = history.Values(name + "_avg"), min = history.Values(name + "_min"),
                                max = history.Values(name + "_max");
      ASSERT_EQ(avg.size(), 2u);
      ASSERT_EQ(min.size(), 2u);
      ASSERT_EQ(max.size(), 2u);
      for (size_t i = 0; i < avg.size(); ++i) {
        EXPECT_GT(min[i], 0.001);  // this program, in GB
        EXPECT_LE(min[i], avg[i] * (1 + 1e-12));
        EXPECT_LE(avg[i], max[i] * (1 + 1e-12));
      }
    }
  }
}

// Such a rank takes part: the others would wait for it.
TEST(MemoryMonitorTest, ARankThatCannotReadTakesPartInTheCollective) {
  if (ReadDeviceMemory(at::Device(at::kCUDA, 0)).ok()) GTEST_SKIP() << "there is a GPU";
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    State state;
    state.identity.world_size = 2;
    state.identity.device = at::Device(at::kCUDA, 0);
    Logger logger;
    MemoryMonitor monitor({.interval = 1, .dist_aggregate_batch_interval = 1}, &communicator);
    for (int batch = 0; batch < 2; ++batch) {
      state.timestamp.ToNextBatch(1, 0, absl::Seconds(1));
      ThrowIfError(monitor.Run(Event::kBatchEnd, state, logger));
    }
    EXPECT_EQ(communicator.num_collectives(), 2);
    EXPECT_TRUE(std::isnan(logger.Last("memory/current_allocated_mem_avg")));
  });
}

TEST_F(MonitorTest, OtherRanksMemoryNeedsACommunicator) {
  MemoryMonitor monitor({.interval = 1, .dist_aggregate_batch_interval = 2});
  state_.identity.world_size = 2;
  Step(monitor, absl::Seconds(1));
  Advance(absl::Seconds(1));
  EXPECT_EQ(Fire(monitor, Event::kBatchEnd).code(), absl::StatusCode::kFailedPrecondition);
  state_.identity.world_size = 1;
  EXPECT_TRUE(Fire(monitor, Event::kBatchEnd).ok());
  EXPECT_FALSE(std::isnan(logger_.Last("memory/current_resident_mem_avg")));
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
  state_.settings.precision = Precision::kAmpBf16;
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
