// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/cuda_loader.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

// With a GPU the module loads and shows it; without one the message says what is missing. There is no third outcome.
TEST(CudaLoader, LoadsOrSaysWhatIsMissing) {
  const absl::StatusOr<CudaModule*> module = LoadCuda();
  if (module.ok()) {
    EXPECT_GE((*module)->device_count(), 1);
    return;
  }
  EXPECT_EQ(module.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(module.status().message().substr(0, 11), "device: gpu") << module.status();
}

}  // namespace
}  // namespace composer
