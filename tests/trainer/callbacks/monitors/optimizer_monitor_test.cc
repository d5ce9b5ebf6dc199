// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/optimizer_monitor.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"

namespace composer {
namespace {

class OptimizerMonitorTest : public CallbackTest {
 protected:
  OptimizerMonitorTest() {
    state_.model = std::make_shared<LinearModel>();
    state_.optimizer = std::make_unique<PlainSgd>(*state_.model, /*lr=*/0.5);
    Record();
  }
  // Runs a step with these gradients of weight (all elements) and bias (none when NaN), as the loop does.
  void StepWith(OptimizerMonitor& monitor, float weight, float bias) {
    auto& params = state_.optimizer->groups()[0].params;
    params[0].mutable_grad() = torch::full({2, 2}, weight);
    params[1].mutable_grad() = std::isnan(bias) ? at::Tensor() : torch::full({2}, bias);
    ASSERT_TRUE(Fire(monitor, Event::kAfterTrainBatch).ok());
    state_.optimizer->Step();
    Advance(absl::Seconds(1));
    ASSERT_TRUE(Fire(monitor, Event::kBatchEnd).ok());
    logger_.Flush(state_.timestamp);
  }
  double Last(const std::string& name) { return logger_.Last("l2_norm/" + name); }
};

TEST_F(OptimizerMonitorTest, NormsOfWhatTheOptimizerWorkedWith) {
  OptimizerMonitor monitor({.interval = 1});
  StepWith(monitor, 1.0F, 2.0F);
  EXPECT_DOUBLE_EQ(Last("grad/fc.weight"), 2);  // sqrt(4 * 1)
  EXPECT_NEAR(Last("grad/fc.bias"), std::sqrt(8.0), 1e-6);
  EXPECT_NEAR(Last("grad/global"), std::sqrt(4 + 8.0), 1e-6);
  // The parameters are {{2.5, 3.5}, {-0.5, -0.5}} and {-1, 1}.
  EXPECT_NEAR(Last("param/fc.weight"), std::sqrt(6.25 + 12.25 + 0.5), 1e-6);
  EXPECT_NEAR(Last("param/fc.bias"), std::sqrt(2.0), 1e-6);
  EXPECT_DOUBLE_EQ(Last("update/fc.weight"), 1);  // 0.5 * 2
  EXPECT_NEAR(Last("update/fc.bias"), std::sqrt(2.0), 1e-6);
  EXPECT_DOUBLE_EQ(Last("moment/fc.weight"), 2);
}

TEST_F(OptimizerMonitorTest, EveryIntervalAndOnlyGradientsWhenAskedTo) {
  OptimizerMonitor monitor({.interval = 2, .log_optimizer_metrics = false});
  for (int i = 0; i < 5; ++i) StepWith(monitor, 1.0F, 1.0F);
  ASSERT_EQ(history_.Values("l2_norm/grad/global").size(), 2u);
  EXPECT_EQ(history_.data["l2_norm/grad/global"][0].first.batch, 2);
  EXPECT_TRUE(std::isnan(Last("param/fc.weight")));
  EXPECT_TRUE(std::isnan(Last("update/fc.weight")));
}

TEST_F(OptimizerMonitorTest, AParameterWithoutAGradientIsLeftOut) {
  OptimizerMonitor monitor({.interval = 1});
  StepWith(monitor, 1.0F, NAN);
  EXPECT_TRUE(std::isnan(Last("grad/fc.bias")));
  EXPECT_TRUE(std::isnan(Last("param/fc.bias")));
  EXPECT_DOUBLE_EQ(Last("update/fc.weight"), 1);
  EXPECT_DOUBLE_EQ(Last("grad/global"), 2);
}

TEST_F(OptimizerMonitorTest, ARankThatWritesNothingMeasuresNothing) {
  Logger silent;
  OptimizerMonitor monitor({.interval = 1});
  state_.optimizer->groups()[0].params[0].mutable_grad() = torch::ones({2, 2});
  ASSERT_TRUE(monitor.Run(Event::kBatchEnd, state_, silent).ok());
  EXPECT_TRUE(std::isnan(silent.Last("l2_norm/grad/global")));
}

TEST(L2NormsTest, DtypesMayBeMixedAndTheListEmpty) {
  const std::vector<double> norms = L2Norms({torch::full({3, 3}, 2.0F), torch::full({4}, 1.0, torch::kBFloat16),
                                             torch::full({1}, -7.0, torch::kDouble), torch::zeros({0})});
  ASSERT_EQ(norms.size(), 4u);
  EXPECT_DOUBLE_EQ(norms[0], 6);
  EXPECT_DOUBLE_EQ(norms[1], 2);
  EXPECT_DOUBLE_EQ(norms[2], 7);
  EXPECT_DOUBLE_EQ(norms[3], 0);
  EXPECT_TRUE(L2Norms({}).empty());
}

}  // namespace
}  // namespace composer
