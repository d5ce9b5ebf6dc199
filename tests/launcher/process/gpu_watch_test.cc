// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/gpu_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace composer {
namespace {

class GpuWatchTest : public ::testing::Test {
 protected:
  ~GpuWatchTest() override { unsetenv("FAKE_XIDS"); }
};

TEST_F(GpuWatchTest, NamesWhatTheRanksGpuReportedSinceTheWorkersBegan) {
  setenv("FAKE_XIDS", "31", 1);
  GpuWatch watch(FAKE_NVML);
  watch.Begin();
  EXPECT_EQ(watch.Look(1, ""), "GPU 1 is slowed down by heat") << "the Xid came before the workers";
  setenv("FAKE_XIDS", "48,79", 1);
  EXPECT_EQ(watch.Look(0, "1"),
            "GPU 1 reported Xid 48 (an uncorrectable error of the memory), reported Xid 79 (the GPU has fallen off the "
            "bus), is slowed down by heat");
  EXPECT_EQ(watch.Look(0, ""), "GPU 0 is slowed down by heat");
  watch.Begin();
  EXPECT_EQ(watch.Look(1, ""), "GPU 1 is slowed down by heat");
}

TEST_F(GpuWatchTest, OnlyTheGpuOfTheRank) {
  GpuWatch watch(LOST_GPU_NVML);
  watch.Begin();
  EXPECT_EQ(watch.Look(0, ""), "");
  EXPECT_EQ(watch.Look(2, ""), "GPU 2 does not answer any more");
  EXPECT_EQ(watch.Look(0, "2"), "GPU 2 does not answer any more");
  EXPECT_EQ(watch.Look(7, ""), "");
}

TEST_F(GpuWatchTest, ANodeWithoutADriverIsSilent) {
  GpuWatch watch("libno-such-driver.so.1");
  watch.Begin();
  EXPECT_EQ(watch.Look(0, ""), "");
}

}  // namespace
}  // namespace composer
