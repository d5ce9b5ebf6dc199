#include "trainer/step/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

namespace composer {
namespace {

TEST(GradScaler, DividesByTheScaleAndFindsWhatIsNotFinite) {
  GradScaler scaler({.init_scale = 8});
  std::vector<at::Tensor> grads = {torch::full({2}, 8.0), torch::full({1, 3}, -4.0)};
  EXPECT_TRUE(scaler.Unscale(grads));
  EXPECT_TRUE(torch::equal(grads[0], torch::ones({2})));
  EXPECT_TRUE(torch::equal(grads[1], torch::full({1, 3}, -0.5)));
  grads[1][0][1] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(scaler.Unscale(grads));
  grads[1][0][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(scaler.Unscale(grads));
}

TEST(GradScaler, BacksOffAtOnceAndGrowsAfterGoodSteps) {
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  scaler.Update(true);
  scaler.Update(true);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  for (int i = 0; i < 2; ++i) scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 512) << "the good steps before the overflow do not count";
  GradScaler resumed(GradScaler::Options{.growth_interval = 3});
  ASSERT_TRUE(resumed.LoadState(scaler.SaveState()).ok());
  resumed.Update(true);
  EXPECT_EQ(resumed.scale(), 1024);
}

TEST(GradScaler, RefusesDamagedState) {
  GradScaler scaler({});
  for (const char* text : {"", "[]", "{}", R"({"scale":0,"good_steps":0,"skipped_steps":0})",
                           R"({"scale":"x","good_steps":0,"skipped_steps":0})"}) {
    EXPECT_EQ(scaler.LoadState(text).code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace composer
