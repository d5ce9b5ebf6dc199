// A test on the mock accelerator: it begins with empty queues and an order of streams chosen by a seed, and must end
// without a fault.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "tests/support/accelerator/device_allocator.h"
#include "tests/support/accelerator/install.h"
#include "tests/support/accelerator/machine.h"

namespace composer::mock {

inline const bool kInstalled = (Install(), true);
inline const at::Device kDevice(at::kCUDA, 0);

class OnMock : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Machine::Get().Restart(17);
  }
  void TearDown() override {
    EXPECT_THAT(Machine::Get().TakeFaults(), testing::IsEmpty());
    MockDeviceAllocator::Get().SetLimit(kDeviceBytes);
  }
};

}  // namespace composer::mock
