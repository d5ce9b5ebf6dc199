// Tests which blocks are FSDP's units.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/shard_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <memory>

#include "trainer/core/block.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Leaf final : public Block {
 public:
  explicit Leaf(int64_t width) : linear_(register_module("linear", torch::nn::Linear(width, width))) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return linear_->forward(inputs[0]); }

 private:
  torch::nn::Linear linear_;
};

// Two blocks within a block.
class Stage final : public Block {
 public:
  explicit Stage(int64_t width)
      : first(register_module("first", std::make_shared<Leaf>(width))),
        second(register_module("second", std::make_shared<Leaf>(width))),
        norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))) {}
  std::shared_ptr<Leaf> first, second;

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return norm_->forward(second->forward(first->forward(inputs[0])));
  }

 private:
  torch::nn::LayerNorm norm_;
};

// The model is head; stage {first, second, norm}; leaf, with widths 4 and 2.
struct Stages : torch::nn::Module {
  Stages() {
    register_module("head", torch::nn::Linear(4, 4));
    stage = register_module("stage", std::make_shared<Stage>(4));
    leaf = register_module("leaf", std::make_shared<Leaf>(2));
  }
  std::shared_ptr<Stage> stage;
  std::shared_ptr<Leaf> leaf;
};

std::vector<std::string> Units(Stages& model, const FsdpOptions& options = {}) {
  std::vector<std::string> names;
  size_t params = 0;
  for (const ShardUnit& unit : FindShardUnits(model, options)) {
    names.push_back(unit.name);
    params += unit.params.size();
  }
  EXPECT_EQ(params, model.parameters().size()) << "each parameter is in one unit";
  return names;
}

std::string Error(Stages& model, const FsdpOptions& options = {}) {
  try {
    FindShardUnits(model, options);
  } catch (const c10::ValueError& e) {
    return e.what_without_backtrace();
  }
  return "";
}

TEST(ShardUnits, OfBlocksWithinBlocksTheOutermostThatIsChosen) {
  Stages model;
  EXPECT_THAT(Units(model), ElementsAre("", "stage", "leaf"));
  EXPECT_THAT(Units(model, {.wrap = {{"Leaf"}, nullptr}}), ElementsAre("", "stage.first", "stage.second", "leaf"));
  EXPECT_THAT(Units(model, {.wrap = {{"Stage"}, nullptr}}), ElementsAre("", "stage"));
  EXPECT_THAT(Units(model, {.wrap = {{"Stage", "Leaf"}, nullptr}}), ElementsAre("", "stage", "leaf"));
  EXPECT_THAT(Units(model, {.auto_wrap = false}), ElementsAre(""));
  EXPECT_THAT(Units(model, {.min_num_params = 20}), ElementsAre("", "stage"));
}

TEST(ShardUnits, LayersInSlotsAreChosenByTypeNameAndPredicate) {
  const auto units = [](const LayerChoice& wrap, int64_t min_num_params = 0) {
    const auto mlp = MakeMlp({8, 16, 16, 4});
    std::vector<std::string> names;
    for (const ShardUnit& unit : FindShardUnits(*mlp, {.wrap = wrap, .min_num_params = min_num_params}))
      names.push_back(unit.name);
    return names;
  };
  EXPECT_THAT(units({}), ElementsAre(""));
  EXPECT_THAT(units({{"Linear"}, nullptr}), ElementsAre("", "layers.0", "layers.1", "layers.2"));
  EXPECT_THAT(units({{"LinearLayer"}, nullptr}, 100), ElementsAre("", "layers.0", "layers.1"));
  EXPECT_THAT(units({{"layers.[12]"}, nullptr}), ElementsAre("", "layers.1", "layers.2"));
  EXPECT_THAT(units({{"layers.0"}, LayersNamed("*.2")}), ElementsAre("", "layers.0", "layers.2"));
  EXPECT_THAT(units({{"activation", "layers.0"}, nullptr}), ElementsAre("", "layers.0")) << "it has no parameters";
}

TEST(ShardUnits, ABlocksOwnMarkGoesFirst) {
  Stages model;
  model.stage->SetFsdpWrap(false);
  EXPECT_THAT(Units(model), ElementsAre("", "stage.first", "stage.second", "leaf"));
  model.stage->second->SetFsdpWrap(true);
  EXPECT_THAT(Units(model, {.auto_wrap = false}), ElementsAre("", "stage.second"));
  EXPECT_THAT(Units(model, {.min_num_params = 1000}), ElementsAre("", "stage.second"));
  model.leaf->SetFsdpWrap(false);
  EXPECT_THAT(Units(model), ElementsAre("", "stage.first", "stage.second"));
}

TEST(ShardUnits, MistakesAreNamed) {
  Stages model;
  EXPECT_THAT(Error(model, {.wrap = {{"Leav"}, nullptr}}),
              HasSubstr("fsdp auto_wrap: `Leav` chooses no layer of Stages (did you mean `Leaf`?)"));
  EXPECT_THAT(Error(model, {.wrap = {{"head"}, nullptr}}),
              HasSubstr("layer head (torch::nn::LinearImpl) cannot be a unit: it is neither a Block"));
  model.stage->first->SetFsdpWrap(true);
  EXPECT_THAT(Error(model), HasSubstr("block stage.first is marked as a unit of its own, but lies in block stage"));
}

}  // namespace
}  // namespace composer
