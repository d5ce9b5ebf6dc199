// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/activation_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <set>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/core/module_call.h"
#include "trainer/loop/autocast.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::Not;

class ActivationMonitorTest : public CallbackTest {
 protected:
  ActivationMonitorTest() { Record(); }
  // Runs a forward of the model as the loop does, and returns the names that were logged in it.
  std::set<std::string> Forward(ActivationMonitor& monitor) {
    EXPECT_TRUE(Fire(monitor, Event::kBeforeForward).ok());
    state_.outputs = state_.model->forward(state_.batch);
    EXPECT_TRUE(Fire(monitor, Event::kAfterForward).ok());
    logger_.Flush(state_.timestamp);
    std::set<std::string> names;
    for (const auto& [name, values] : history_.data) {
      if (values.back().first.batch == state_.timestamp.batch) names.insert(name);
    }
    return names;
  }
  double Last(const std::string& name) { return logger_.Last("activations/" + name); }
};

TEST(ActivationStatisticsTest, AreTakenOverTheLastDimension) {
  // Rows are {1, 2, 3, 6} (mean 3, m2 = 3.5, m4 = 24.5) and {-1, -1, 1, 1} (mean 0, m2 = m4 = 1).
  const at::Tensor x = torch::tensor({{1.0F, 2.0F, 3.0F, 6.0F}, {-1.0F, -1.0F, 1.0F, 1.0F}});
  const at::Tensor s = ActivationStatisticsOf(x.requires_grad_());
  EXPECT_FALSE(s.requires_grad());
  EXPECT_NEAR(s[0].item<double>(), (std::sqrt(50.0) + 2) / 2, 1e-5);
  EXPECT_NEAR(s[1].item<double>(), 1.5, 1e-6);
  EXPECT_NEAR(s[2].item<double>(), (24.5 / (3.5 * 3.5) + 1) / 2, 1e-5);
  EXPECT_NEAR(s[3].item<double>(), 3.5, 1e-6);
  EXPECT_TRUE(std::isnan(ActivationStatisticsOf(torch::ones({2, 3}))[2].item<double>()));
}

TEST_F(ActivationMonitorTest, EveryLayerOfAPerceptronIsSeen) {
  state_.model = MakeMlp({4, 3, 2});
  const torch::NoGradGuard no_grad;
  state_.batch.inputs = torch::tensor({{1.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 2.0F, 0.0F, 0.0F}});
  ActivationMonitor monitor({});
  const std::set<std::string> names = Forward(monitor);
  EXPECT_EQ(names.size(), 4u * 4);  // statistics x inputs and outputs of two layers
  EXPECT_DOUBLE_EQ(Last("l2_norm/layers.0_input.0"), 1.5);
  EXPECT_DOUBLE_EQ(Last("average/layers.0_input.0"), 3.0 / 8);
  EXPECT_DOUBLE_EQ(Last("max/layers.0_input.0"), 1.5);
  const auto params = state_.model->named_parameters();
  const at::Tensor hidden = state_.batch.inputs.matmul(params["layers.0.weight"].t()) + params["layers.0.bias"];
  EXPECT_NEAR(Last("average/layers.0_output.0"), hidden.mean().item<double>(), 1e-6);  // before the in-place ReLU
  EXPECT_NEAR(Last("average/layers.1_input.0"), hidden.relu().mean().item<double>(), 1e-6);
  EXPECT_NEAR(Last("average/layers.1_output.0"), state_.outputs->mean().item<double>(), 1e-6);
}

TEST_F(ActivationMonitorTest, EveryIntervalOnceAndAnyoneElsesForwardIsLeftAlone) {
  state_.model = MakeMlp({4, 3, 2});
  state_.batch.inputs = torch::ones({2, 4});
  ActivationMonitor monitor({.interval = Time::Batches(2)});
  for (int batch = 0; batch < 5; ++batch) {
    EXPECT_EQ(Forward(monitor).empty(), batch % 2 != 0) << batch;
    const int64_t records = history_.records;
    Forward(monitor);  // the next microbatch
    EXPECT_EQ(history_.records, records);
    Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(at::hasCallbacks());
}

TEST_F(ActivationMonitorTest, BlocksOfAResidualNetworkAreSeen) {
  state_.model = MakeResNetSmall({.widths = {4, 8}});
  state_.batch.inputs = torch::rand({2, 1, 8, 8});
  ActivationMonitor monitor({.ignore_module_types = {"BatchNorm"}});
  const std::set<std::string> names = Forward(monitor);
  for (const char* module : {"conv1", "layer1.0", "layer1.0.conv2", "layer2.0.downsample.0", "fc"}) {
    EXPECT_THAT(names, Contains("activations/l2_norm/" + std::string(module) + "_input.0"));
    EXPECT_THAT(names, Contains("activations/kurtosis/" + std::string(module) + "_output.0"));
  }
  for (const std::string& name : names) EXPECT_EQ(name.find("bn"), std::string::npos) << name;
  EXPECT_GE(logger_.Last("activations/average/layer1.0_output.0"), 0);  // after its ReLU
}

TEST_F(ActivationMonitorTest, BlocksAndTheTiedHeadOfALanguageModelAreSeenInMixedPrecision) {
  state_.model = MakeGpt({.layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 11});
  state_.batch.inputs = torch::randint(11, {2, 6}, torch::kLong);
  ActivationMonitor monitor({});
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  const std::set<std::string> names = Forward(monitor);
  for (const char* module : {"transformer.blocks.0", "transformer.blocks.1.attn", "transformer.blocks.1.attn.qkv",
                             "transformer.blocks.0.mlp.fc", "transformer.blocks.0.ln_1", "transformer.ln_f"}) {
    EXPECT_THAT(names, Contains("activations/l2_norm/" + std::string(module) + "_input.0"));
    EXPECT_THAT(names, Contains("activations/max/" + std::string(module) + "_output.0"));
  }
  // Integer tokens are not measured; the embedding's second use is the head.
  EXPECT_THAT(names, Not(Contains("activations/max/transformer.wte_input.0")));
  EXPECT_THAT(names, Contains("activations/max/transformer.wte_output.0"));
  EXPECT_THAT(names, Contains("activations/max/transformer.wte#2_input.0"));
  EXPECT_NEAR(Last("average/transformer.wte#2_output.0"), state_.outputs->to(torch::kFloat).mean().item<double>(),
              1e-4);
  EXPECT_NEAR(Last("l2_norm/transformer.ln_f_output.0"), std::sqrt(8.0), 0.05);  // normalised
}

// A module without parameters that opens a ModuleCall.
class Doubler final : public Model {
 public:
  Outputs forward(const Batch& batch) override {
    ModuleCall call(*this, batch.inputs);
    TORCH_CHECK(batch.inputs.size(0) > 0, "empty");
    return call.Output(batch.inputs * 2);
  }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs->sum(); }
  MetricList metrics(bool) const override { return {}; }
};

TEST_F(ActivationMonitorTest, AModelThatOpensACallIsKnownByItsType) {
  state_.model = std::make_shared<Doubler>();
  state_.batch.inputs = torch::tensor({{1.0F, 3.0F}});
  ActivationMonitor monitor({});
  const std::set<std::string> names = Forward(monitor);
  EXPECT_EQ(names.size(), 8u);
  const std::string type = state_.model->name();
  EXPECT_DOUBLE_EQ(Last("average/" + type + "_input.0"), 2);
  EXPECT_DOUBLE_EQ(Last("average/" + type + "_output.0"), 4);
}

TEST_F(ActivationMonitorTest, AForwardThatThrowsLeavesNothingBehind) {
  state_.model = std::make_shared<Doubler>();
  state_.batch.inputs = torch::zeros({0, 2});
  {
    ActivationMonitor monitor({});
    ASSERT_TRUE(Fire(monitor, Event::kBeforeForward).ok());
    EXPECT_THROW(state_.model->forward(state_.batch), c10::Error);
    state_.batch.inputs = torch::ones({1, 2});
    Advance(absl::Seconds(1));
    EXPECT_TRUE(Forward(monitor).empty());  // not due
  }
  EXPECT_FALSE(at::hasCallbacks());
}

}  // namespace
}  // namespace composer
