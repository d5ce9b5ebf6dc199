// Tests the decisions about captured steps, by tables.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/graph_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using testing::HasSubstr;

TEST(GraphChoice, APlainRunOnAGpuIsCaptured) {
  EXPECT_EQ(WhyNoGraphs({}), "");
  EXPECT_EQ(WhyNoGraphs({.algorithms = {"GradientClipping", "EMA", "LowPrecisionLayerNorm"}}), "");
}

TEST(GraphChoice, EachThingThatTheHostDecidesIsNamed) {
  const std::vector<std::pair<GraphFacts, const char*>> table = {
      {{.device_captures = false}, "no graphs"},
      {{.on_default_stream = true}, "default stream"},
      {{.sums_on_host = true}, "the sums over ranks need the host"},
      {{.fp16_scaler = true}, "amp_fp16"},
      {{.auto_microbatch = true}, "device_train_microbatch_size: auto"},
      {{.on_tokens = true}, "accumulate_train_batch_on_tokens"},
      {{.elastic = true}, "determinism: elastic"},
      {{.wraps_activations = true}, "activation checkpointing"},
      {{.transforms_microbatch = true}, "functions of its own"},
      {{.host_optimizer = "LBFGS"}, "the update of LBFGS"},
      {{.algorithms = {"EMA", "StochasticDepth"}}, "the algorithm StochasticDepth"},
      {{.algorithms = {"OfAPlugin"}}, "the algorithm OfAPlugin"},
      {{.step_callbacks = {"NaNMonitor"}}, "the callback NaNMonitor"},
  };
  for (const auto& [facts, part] : table) EXPECT_THAT(WhyNoGraphs(facts), HasSubstr(part));
}

TEST(GraphChoice, AShapeIsWarmedUpThenCapturedThenReplayed) {
  EXPECT_EQ(NextGraphAction(false, 0, 0), GraphAction::kEager);
  EXPECT_EQ(NextGraphAction(false, kGraphWarmUpSteps - 1, 0), GraphAction::kEager);
  EXPECT_EQ(NextGraphAction(false, kGraphWarmUpSteps, 0), GraphAction::kCapture);
  EXPECT_EQ(NextGraphAction(false, kGraphWarmUpSteps, kMostGraphs - 1), GraphAction::kCapture);
  EXPECT_EQ(NextGraphAction(false, 1000, kMostGraphs), GraphAction::kEager);
  EXPECT_EQ(NextGraphAction(true, 1000, kMostGraphs), GraphAction::kReplay);
}

}  // namespace
}  // namespace composer
