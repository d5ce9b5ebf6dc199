// SPDX-License-Identifier: Apache-2.0
#include "worker/gpu_math.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/env.h"

namespace composer {
namespace {

constexpr char kWorkspace[] = "CUBLAS_WORKSPACE_CONFIG";

class GpuMath : public testing::Test {
 protected:
  void SetUp() override { unsetenv(kWorkspace); }
  void TearDown() override {
    unsetenv(kWorkspace);
    SetGpuMath(/*tf32=*/false, /*deterministic=*/false);
  }
};

TEST_F(GpuMath, Tf32HoldsForProductsAndConvolutions) {
  for (const bool tf32 : {true, false}) {
    SetGpuMath(tf32, /*deterministic=*/false);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), tf32);
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), tf32);
    EXPECT_EQ(Environment::FromProcess().Get(kWorkspace), std::nullopt);
  }
}

TEST_F(GpuMath, DeterminismFixesTheWorkspaceUnlessTheUserHas) {
  SetGpuMath(/*tf32=*/true, /*deterministic=*/true);
  EXPECT_EQ(Environment::FromProcess().Get(kWorkspace), ":4096:8");
  setenv(kWorkspace, ":16:8", 1);
  SetGpuMath(/*tf32=*/true, /*deterministic=*/true);
  EXPECT_EQ(Environment::FromProcess().Get(kWorkspace), ":16:8");
}

}  // namespace
}  // namespace composer
