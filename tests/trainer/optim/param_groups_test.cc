// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/param_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace composer {
namespace {

using ::testing::ElementsAre;

NamedTensors ModelTensors() {
  const auto param = [](at::IntArrayRef shape) { return torch::zeros(shape).requires_grad_(true); };
  return {{"body.weight", param({4, 4})},
          {"body.bias", param({4})},
          {"norm.weight", param({4})},
          {"head.weight", param({2, 4})},
          {"frozen", torch::zeros({3})}};
}

TEST(ParamGroupsTest, OneGroupByDefault) {
  const auto groups = MakeParamGroups(ModelTensors(), {.lr = 0.1, .weight_decay = 0.01});
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 1u);
  EXPECT_THAT((*groups)[0].names, ElementsAre("body.weight", "body.bias", "norm.weight", "head.weight"));
  EXPECT_EQ((*groups)[0].params.size(), 4u);
  EXPECT_EQ((*groups)[0].lr, 0.1);
  EXPECT_EQ((*groups)[0].initial_lr, 0.1);
  EXPECT_EQ((*groups)[0].weight_decay, 0.01);
}

TEST(ParamGroupsTest, BiasAndNormWithoutDecay) {
  const auto groups =
      MakeParamGroups(ModelTensors(), {.lr = 0.1, .weight_decay = 0.01, .no_decay_on_bias_and_norm = true});
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_THAT((*groups)[0].names, ElementsAre("body.weight", "head.weight"));
  EXPECT_THAT((*groups)[1].names, ElementsAre("body.bias", "norm.weight"));
  EXPECT_EQ((*groups)[1].weight_decay, 0);
}

TEST(ParamGroupsTest, TheFirstMatchingRuleWins) {
  ParamGroupOptions options{.lr = 0.1, .weight_decay = 0.01, .no_decay_on_bias_and_norm = true};
  options.rules = {{"head.*", 1.0, std::nullopt}, {"*.weight", std::nullopt, 0.5}};
  const auto groups = MakeParamGroups(ModelTensors(), options);
  ASSERT_TRUE(groups.ok()) << groups.status();
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_THAT((*groups)[0].names, ElementsAre("body.weight", "norm.weight"));
  EXPECT_EQ((*groups)[0].weight_decay, 0.5);
  EXPECT_THAT((*groups)[1].names, ElementsAre("body.bias"));
  EXPECT_THAT((*groups)[2].names, ElementsAre("head.weight"));
  EXPECT_EQ((*groups)[2].lr, 1.0);
  EXPECT_EQ((*groups)[2].initial_lr, 1.0);
  EXPECT_EQ((*groups)[2].weight_decay, 0.01);
}

TEST(ParamGroupsTest, TypesAreKeptApart) {
  NamedTensors model = ModelTensors();
  model[1].second = torch::zeros({4}, torch::kBFloat16).requires_grad_(true);
  const auto groups = MakeParamGroups(model, {});
  ASSERT_EQ(groups->size(), 2u);
  EXPECT_THAT((*groups)[1].names, ElementsAre("body.bias"));
}

TEST(ParamGroupsTest, ErrorsNameTheField) {
  EXPECT_EQ(MakeParamGroups(ModelTensors(), {.lr = -1}).status().message(), "lr: -1, must be >= 0");
  EXPECT_EQ(MakeParamGroups(ModelTensors(), {.lr = 1, .weight_decay = -2}).status().message(),
            "weight_decay: -2, must be >= 0");
  EXPECT_EQ(MakeParamGroups(ModelTensors(), {.rules = {{"tail.*", 1.0, {}}}}).status().message(),
            "pattern `tail.*` matches no parameter; the first is `body.weight`");
  EXPECT_EQ(MakeParamGroups({{"frozen", torch::zeros({1})}}, {}).status().message(),
            "the model has no parameter that needs a gradient");
}

}  // namespace
}  // namespace composer
