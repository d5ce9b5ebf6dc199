// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/system_metrics_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/threads_communicator.h"
#include "tests/trainer/callbacks/callback_fixture.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Uses its own /proc, and the fake driver library of fake_nvml.cc: two GPUs, the second without a power reading.
class SystemMetricsMonitorTest : public CallbackTest {
 protected:
  SystemMetricsMonitorTest() {
    Record();
    Proc("stat", "cpu  100 0 50 800 50 0 0 0\n");
    Proc("meminfo",
         "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 400 kB\nBuffers: 10 kB\nCached: 90 kB\nActive: 300 kB\n"
         "Inactive: 100 kB\nShmem: 5 kB\nSlab: 8 kB\nSReclaimable: 10 kB\n");
    Proc("net/dev", "eth0: 5000 40 1 2 0 0 0 0 3000 30 3 4 0 0 0 0\n");
  }
  void Proc(const std::string& name, const std::string& text) {
    ASSERT_TRUE(MakeDirs(dir_.Path("net")).ok());
    ASSERT_TRUE(AtomicWriteFile(dir_.Path(name), text).ok());
  }
  SystemMetricsMonitor::Options Options() { return {.proc = dir_.path(), .nvml_library = dir_.Path("none.so")}; }
  double Last(const std::string& name) { return logger_.Last(name); }
  // Returns how much a batch's start logs.
  size_t Logged(SystemMetricsMonitor& monitor, Event event = Event::kBatchStart) {
    const int64_t before = history_.records;
    EXPECT_TRUE(Fire(monitor, event).ok());
    logger_.Flush(state_.timestamp);
    return static_cast<size_t>(history_.records - before);
  }
  TempDir dir_;
};

TEST_F(SystemMetricsMonitorTest, TheMachineUnderComposersNames) {
  state_.identity.run_folder = dir_.path();
  SystemMetricsMonitor monitor(Options(), clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Proc("stat", "cpu  150 0 75 850 75 10 10 5\n");
  ASSERT_EQ(Logged(monitor), 1u);
  EXPECT_DOUBLE_EQ(Last("cpu_percentage"), 100.0 * (175 - 75) / 175);
  const std::pair<const char*, double> kibibytes[] = {
      {"total", 1000},   {"available", 400}, {"used", 600},   {"free", 200}, {"active", 300},
      {"inactive", 100}, {"buffers", 10},    {"cached", 100}, {"shared", 5}, {"slab", 8}};
  for (const auto& [name, value] : kibibytes) EXPECT_EQ(Last(std::string("cpu_memory_") + name), value * 1024) << name;
  EXPECT_DOUBLE_EQ(Last("cpu_memory_percent"), 60);
  EXPECT_EQ(Last("network_bytes_recv"), 5000);
  EXPECT_EQ(Last("network_packets_sent"), 30);
  EXPECT_EQ(Last("network_errin"), 1);
  EXPECT_EQ(Last("network_errout"), 3);
  EXPECT_EQ(Last("network_dropin"), 2);
  EXPECT_EQ(Last("network_dropout"), 4);
  EXPECT_GT(Last("disk_memory_total"), 0);
  EXPECT_GE(Last("disk_memory_total"), Last("disk_memory_used"));
  EXPECT_GE(Last("disk_memory_percent"), 0);
  EXPECT_LE(Last("disk_memory_percent"), 100);
  EXPECT_TRUE(std::isnan(Last("max_gpu_percentage")));
}

TEST_F(SystemMetricsMonitorTest, ThereIsNoPercentageBeforeTimeHasPassed) {
  SystemMetricsMonitor monitor(Options(), clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  EXPECT_EQ(Logged(monitor), 1u);
  EXPECT_TRUE(std::isnan(Last("cpu_percentage")));
  EXPECT_EQ(Last("cpu_memory_total"), 1000 * 1024);
}

TEST_F(SystemMetricsMonitorTest, AtMostOnceAnIntervalInTrainingAndEvaluation) {
  auto options = Options();
  options.interval = absl::Seconds(2);
  SystemMetricsMonitor monitor(options, clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  EXPECT_EQ(Logged(monitor), 1u);
  clock_.Advance(absl::Milliseconds(1999));
  EXPECT_EQ(Logged(monitor), 0u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(Logged(monitor, Event::kEvalBatchStart), 1u);
  EXPECT_EQ(Logged(monitor), 0u);
  options.interval = absl::ZeroDuration();
  SystemMetricsMonitor always(options, clock_);
  ASSERT_TRUE(Fire(always, Event::kFitStart).ok());
  EXPECT_EQ(Logged(always) + Logged(always), 2u);
}

TEST_F(SystemMetricsMonitorTest, GpusByTheirLeastAndMost) {
  auto options = Options();
  options.nvml_library = FAKE_NVML;
  SystemMetricsMonitor monitor(options, clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  ::testing::internal::CaptureStderr();
  Logged(monitor);
  EXPECT_EQ(Last("min_gpu_percentage"), 40);
  EXPECT_EQ(Last("max_gpu_percentage"), 90);
  EXPECT_EQ(Last("min_gpu_temperature_C"), 50);
  EXPECT_EQ(Last("max_gpu_temperature_C"), 70);
  EXPECT_EQ(Last("max_memory_percentage"), 10);
  EXPECT_DOUBLE_EQ(Last("max_gpu_power_usage_W"), 350.5);  // the other GPU has none
  EXPECT_DOUBLE_EQ(Last("min_gpu_power_usage_W"), 350.5);
  EXPECT_EQ(Last("min_gpu_memory_errors"), 0);
  EXPECT_EQ(Last("max_gpu_memory_errors"), 5);
  EXPECT_EQ(Last("max_gpu_slowed_down"), 1);
  EXPECT_TRUE(std::isnan(Last("gpu_percentage_rank_0")));
  clock_.Advance(absl::Seconds(5));
  Logged(monitor);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("gpu_power_usage_W"));
  EXPECT_EQ(said.find("something is not measured", said.find("something is not measured") + 1), std::string::npos);
}

TEST_F(SystemMetricsMonitorTest, AllOfThemWhenAskedTo) {
  auto options = Options();
  options.nvml_library = FAKE_NVML;
  options.log_all_data = true;
  SystemMetricsMonitor monitor(options, clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Logged(monitor);
  EXPECT_EQ(Last("gpu_percentage_rank_0"), 40);
  EXPECT_EQ(Last("gpu_percentage_rank_1"), 90);
  EXPECT_DOUBLE_EQ(Last("gpu_power_usage_W_rank_0"), 350.5);
  EXPECT_TRUE(std::isnan(Last("gpu_power_usage_W_rank_1")));
  EXPECT_TRUE(std::isnan(Last("max_gpu_percentage")));
}

// Both ranks have the fake's two GPUs, of which each reads its own.
TEST_F(SystemMetricsMonitorTest, GpusOfAllRanksAreGatheredEveryFewBatches) {
  auto options = Options();
  options.nvml_library = FAKE_NVML;
  options.dist_aggregate_batch_interval = 2;
  for (const bool each : {false, true}) {
    options.log_all_data = each;
    ThreadsExchange exchange(2);
    SpawnRanks(2, [&](int rank) {
      ThreadsCommunicator ranks(exchange, rank);
      auto own = options;
      own.gpu = each ? rank : 1 - rank;
      own.visible_devices = each ? "1,0" : "";
      SystemMetricsMonitor monitor(own, clock_, &ranks);
      State state;
      state.identity.world_size = 2;
      Logger silent;
      for (const int64_t batch : {0, 1}) {
        state.timestamp.batch = batch;
        EXPECT_TRUE(monitor.Run(batch == 0 ? Event::kFitStart : Event::kBatchStart, state, silent).ok());
        EXPECT_EQ(ranks.num_collectives(), 0);
      }
      state.timestamp.batch = 2;
      EXPECT_TRUE(monitor.Run(Event::kBatchStart, state, rank == 0 ? logger_ : silent).ok());
      EXPECT_EQ(ranks.num_collectives(), 1);
    });
    logger_.Flush(state_.timestamp);
  }
  EXPECT_EQ(Last("min_gpu_percentage"), 40);
  EXPECT_EQ(Last("max_gpu_percentage"), 90);
  EXPECT_EQ(Last("gpu_percentage_rank_0"), 90);
  EXPECT_EQ(Last("gpu_percentage_rank_1"), 40);
  state_.identity.world_size = 2;
  SystemMetricsMonitor alone(options, clock_);
  EXPECT_EQ(Fire(alone, Event::kBatchStart).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SystemMetricsMonitorTest, WhatCannotBeReadIsWarnedOfOnceAndTheRunGoesOn) {
  ASSERT_TRUE(RemoveFile(dir_.Path("meminfo")).ok());
  SystemMetricsMonitor monitor(Options(), clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  ::testing::internal::CaptureStderr();
  Logged(monitor);
  clock_.Advance(absl::Seconds(5));
  Logged(monitor);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("something is not measured");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_THAT(said, HasSubstr("meminfo"));
  EXPECT_EQ(said.find("something is not measured", first + 1), std::string::npos);
}

TEST_F(SystemMetricsMonitorTest, OnlyAGpuRunMissesTheDriver) {
  const auto said = [&](at::Device device) {
    state_.identity.device = device;
    SystemMetricsMonitor monitor(Options(), clock_);
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(Fire(monitor, Event::kFitStart).ok());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(at::kCPU), IsEmpty());
  EXPECT_THAT(said(at::Device(at::kCUDA, 0)), HasSubstr("none.so"));
}

TEST_F(SystemMetricsMonitorTest, ARankThatWritesNothingReadsNothing) {
  ASSERT_TRUE(RemoveFile(dir_.Path("meminfo")).ok());
  SystemMetricsMonitor monitor(Options(), clock_);
  ASSERT_TRUE(Fire(monitor, Event::kFitStart).ok());
  Logger silent;
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(monitor.Run(Event::kBatchStart, state_, silent).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
}

}  // namespace
}  // namespace composer
