// SPDX-License-Identifier: Apache-2.0
#include "base/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace composer {
namespace {

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto nvml = Nvml::Load(FAKE_NVML);
    ASSERT_TRUE(nvml.ok()) << nvml.status();
    nvml_ = *std::move(nvml);
  }
  std::unique_ptr<Nvml> nvml_;
};

TEST_F(NvmlTest, TellsWhatTheDriverTells) {
  EXPECT_EQ(nvml_->DeviceCount().value(), 2);
  EXPECT_EQ(nvml_->Name(0).value(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(nvml_->MemoryOf(1)->free_bytes, 5'000'000'000);
  EXPECT_EQ(nvml_->UtilizationOf(1)->gpu_percent, 90);
  EXPECT_EQ(nvml_->TemperatureCelsius(1).value(), 70);
  EXPECT_DOUBLE_EQ(nvml_->PowerWatts(0).value(), 350.5);
  EXPECT_EQ(nvml_->DriverVersion().value(), "550.54");
  EXPECT_EQ(nvml_->MemoryErrors(1).value(), 5);
  EXPECT_EQ(nvml_->ThrottleReasons(0).value(), kThrottleHardwareThermal);
  EXPECT_EQ(nvml_->PowerWatts(1).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(nvml_->Name(2).status().message(), "GPU 2: Invalid Argument");
}

TEST_F(NvmlTest, ProcessesAreSortedHoweverMany) {
  const auto few = nvml_->Processes(0);
  ASSERT_EQ(few->size(), 2u);
  EXPECT_EQ((*few)[0].pid, 1001);
  EXPECT_EQ((*few)[1].memory_bytes, -1);
  const auto many = nvml_->Processes(1);
  ASSERT_EQ(many->size(), 40u);
  EXPECT_EQ((*many)[0].memory_bytes, 40'000'000'000);
}

TEST_F(NvmlTest, TellsOfXidsAndReplacedRows) {
  EXPECT_TRUE(nvml_->TakeXids().empty()) << "nobody listens";
  ASSERT_TRUE(nvml_->StartEvents().ok());
  setenv("FAKE_XIDS", "31,79", 1);
  const auto xids = nvml_->TakeXids();
  ASSERT_EQ(xids.size(), 2u);
  EXPECT_EQ(xids[0].device, 1);
  EXPECT_EQ(xids[0].number, 31);
  EXPECT_EQ(xids[1].number, 79);
  EXPECT_TRUE(nvml_->TakeXids().empty());
  EXPECT_FALSE(nvml_->RowsOf(0)->failed);
  EXPECT_TRUE(nvml_->RowsOf(1)->failed && nvml_->RowsOf(1)->pending);
}

TEST_F(NvmlTest, FindsCudasDevice) {
  EXPECT_EQ(nvml_->IndexOf(1, "").value(), 1);
  EXPECT_EQ(nvml_->IndexOf(0, "1").value(), 1);
  EXPECT_EQ(nvml_->IndexOf(1, "1, 0").value(), 0);
  EXPECT_EQ(nvml_->IndexOf(0, "GPU-1ab").value(), 1);
  EXPECT_EQ(nvml_->IndexOf(0, "MIG-7").status().code(), absl::StatusCode::kUnimplemented);
  for (const char* visible : {"", "0", "0,7", "0,x"})
    EXPECT_EQ(nvml_->IndexOf(visible[0] == 0 ? 2 : 1, visible).status().code(), absl::StatusCode::kOutOfRange)
        << visible;
}

TEST(NvmlLoadTest, AMachineWithoutADriverIsAStatus) {
  EXPECT_EQ(Nvml::Load("libno-such-driver.so.1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Nvml::Load("libc.so.6").status().code(), absl::StatusCode::kUnavailable);
}

TEST(NvmlLoadTest, AnOldDriverDoesNotTellAll) {
  const auto nvml = Nvml::Load(LOST_GPU_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->ThrottleReasons(0).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*nvml)->StartEvents().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE((*nvml)->TakeXids().empty());
  EXPECT_EQ((*nvml)->RowsOf(0).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*nvml)->DeviceCount().value(), 3);
  EXPECT_FALSE((*nvml)->Name(2).ok()) << "it has fallen off the bus";
}

}  // namespace
}  // namespace composer
