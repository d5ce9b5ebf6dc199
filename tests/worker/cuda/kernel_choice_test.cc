// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/kernel_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(KernelChoice, FollowsTheKeyAndTheGpu) {
  const struct {
    KernelsKey key;
    int capability;
    bool use;
    const char* reason;
  } rows[] = {
      {KernelsKey::kAuto, 80, true, "kernels of our own"},
      {KernelsKey::kAuto, 90, true, "kernels of our own"},
      {KernelsKey::kAuto, 120, true, "kernels of our own"},
      {KernelsKey::kAuto, 75, false, "capability is 7.5, and our kernels need 8.0"},
      {KernelsKey::kOff, 90, false, "kernels: off; LibTorch's operators"},
  };
  for (const auto& row : rows) {
    const KernelChoice choice = ChooseKernels(row.key, row.capability);
    EXPECT_EQ(choice.use, row.use) << row.capability;
    EXPECT_THAT(choice.reason, testing::HasSubstr(row.reason));
  }
}

}  // namespace
}  // namespace composer
