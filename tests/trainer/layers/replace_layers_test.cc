// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/replace_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "trainer/layers/layer_list.h"
#include "trainer/layers/layer_policy.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using LayerNames = std::vector<std::string>;

// Multiplies by a number, after a layer if it has one.
class ScaledLayer final : public torch::nn::Module, public Layer {
 public:
  explicit ScaledLayer(double factor, std::shared_ptr<torch::nn::Module> inner = nullptr) : factor_(factor) {
    if (inner != nullptr) inner_ = Slot<Layer>(*this, "inner", std::move(inner));
  }
  at::Tensor forward(const at::Tensor& x) override { return (inner_ ? inner_->forward(x) : x) * factor_; }

 private:
  double factor_;
  Slot<Layer> inner_;
};

// One layer under two names, and one in no slot.
struct SharingNet : torch::nn::Module {
  SharingNet()
      : first(*this, "first", std::make_shared<LinearLayer>(2, 2)),
        second(*this, "second", named_children()["first"]),
        typed(*this, "typed", std::make_shared<EmbeddingLayer>(3, 2)),
        loose(register_module("loose", std::make_shared<LinearLayer>(2, 2))) {}
  at::Tensor forward(const at::Tensor& x) { return second->forward(first->forward(x)); }
  Slot<Layer> first, second;
  Slot<EmbeddingLayer> typed;
  std::shared_ptr<LinearLayer> loose;
};

ReplacementPolicy ReplaceNamed(const LayerNames& names, std::shared_ptr<torch::nn::Module> by) {
  return [=](const std::string& name, const std::shared_ptr<torch::nn::Module>&) {
    return std::find(names.begin(), names.end(), name) != names.end() ? by : nullptr;
  };
}

std::string ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST(Slots, CallWhatIsRegisteredAlsoAfterTorchsOwnReplaceModule) {
  const auto model = MakeMlp({2, 2, 1});
  Batch batch;
  batch.inputs = torch::tensor({{1.f, 2.f}});
  model->forward(batch);
  const auto list = model->named_children()["layers"];
  auto linear = std::make_shared<LinearLayer>(2, 2);
  list->replace_module("0", linear);
  linear->weight.detach().fill_(1);
  linear->bias.detach().fill_(0);
  const auto params = model->named_parameters();
  params["layers.1.weight"].detach().fill_(1);
  params["layers.1.bias"].detach().fill_(0);
  EXPECT_EQ(model->forward(batch)->item<float>(), 6);
  model->forward(batch)->sum().backward();
  EXPECT_TRUE(linear->weight.grad().defined());
  list->replace_module("0", torch::nn::Linear(2, 2).ptr());
  EXPECT_THAT(ErrorOf([&] { model->forward(batch); }), HasSubstr("slot 0 of composer::LayerList cannot hold a "));
  list->unregister_module("0");
  EXPECT_THAT(ErrorOf([&] { model->forward(batch); }), HasSubstr("its module was unregistered"));
}

TEST(Slots, FreeAReplacedModuleAtOnce) {
  const auto model = MakeMlp({2, 2, 1});
  const auto list = model->named_children()["layers"];
  const std::weak_ptr<torch::nn::Module> old = list->named_children()["0"];
  list->replace_module("0", std::make_shared<LinearLayer>(2, 2));
  EXPECT_TRUE(old.expired());
}

TEST(FindLayers, ByTypeNameAndPredicate) {
  const auto gpt = MakeGpt({.layers = 2, .heads = 2, .width = 8, .context = 4, .vocab = 11});
  const auto names = [&](const LayerSelector& selector) {
    LayerNames found;
    for (const auto& [name, module] : FindLayers(*gpt, selector)) found.push_back(name);
    return found;
  };
  EXPECT_THAT(names(LayersOfType<torch::nn::LayerNormImpl>()),
              ElementsAre("transformer.blocks.0.ln_1", "transformer.blocks.0.ln_2", "transformer.blocks.1.ln_1",
                          "transformer.blocks.1.ln_2", "transformer.ln_f"));
  EXPECT_THAT(names(LayersNamed("transformer.blocks.*.mlp.fc")),
              ElementsAre("transformer.blocks.0.mlp.fc", "transformer.blocks.1.mlp.fc"));
  EXPECT_THAT(names([](const std::string&, const torch::nn::Module& module) {
                const auto* linear = dynamic_cast<const LinearLayer*>(&module);
                return linear != nullptr && linear->weight.size(0) == 24;
              }),
              ElementsAre("transformer.blocks.0.attn.qkv", "transformer.blocks.1.attn.qkv"));
  EXPECT_THAT(names(LayersOfType<torch::nn::Conv2dImpl>()), IsEmpty());
  EXPECT_EQ(FindLayers(*MakeResNetSmall({}), LayersOfType<torch::nn::Conv2dImpl>()).size(), 9u);
}

LayerNames ChosenOf(const torch::nn::Module& model, const LayerChoice& choice) {
  LayerNames names;
  const NamedModules chosen = ChooseLayers(model, choice).value();
  for (const auto& [name, module] : chosen) names.push_back(name);
  return names;
}

TEST(ChooseLayers, ByTypePatternAndPredicateAtOnce) {
  const auto gpt = MakeGpt({.layers = 2, .heads = 2, .width = 8, .context = 4, .vocab = 11});
  EXPECT_THAT(ChosenOf(*gpt, {{"GptBlock"}, nullptr}), ElementsAre("transformer.blocks.0", "transformer.blocks.1"));
  EXPECT_THAT(ChosenOf(*gpt, {{"Attention", "*.1.mlp"}, LayersNamed("transformer.ln_f")}),
              ElementsAre("transformer.blocks.0.attn", "transformer.blocks.1.attn", "transformer.blocks.1.mlp",
                          "transformer.ln_f"));
  EXPECT_EQ(ChosenOf(*gpt, {{"LayerNorm"}, nullptr}).size(), 5u);
  EXPECT_THAT(ChosenOf(*gpt, {}), IsEmpty());
  const SharingNet net;
  EXPECT_THAT(ChosenOf(net, {{"Linear"}, nullptr}), ElementsAre("first", "loose")) << "each once";
}

TEST(ChooseLayers, AnErrorHasTheNearestTypeOrName) {
  const auto gpt = MakeGpt({.layers = 1, .heads = 2, .width = 8, .context = 4, .vocab = 11});
  const auto error = [&](const LayerChoice& choice) {
    return std::string(ChooseLayers(*gpt, choice).status().message());
  };
  EXPECT_THAT(error({{"GptBlock", "GptBlok"}, nullptr}),
              HasSubstr("`GptBlok` chooses no layer of Gpt (did you mean `GptBlock`?): it is neither a type, of which "
                        "there are Attention, DotProductAttention, Dropout, "));
  EXPECT_THAT(error({{"transformer.wteX"}, nullptr}), HasSubstr("did you mean `transformer.wte`?"));
  EXPECT_THAT(error({{}, LayersNamed("none")}), HasSubstr("the predicate chooses no layer of Gpt"));
}

TEST(ReplaceLayers, BlocksAttentionAndFeedForwardOfGptAndBlocksOfResNet) {
  const auto gpt = MakeGpt({.layers = 2, .heads = 2, .width = 8, .context = 4, .vocab = 11});
  gpt->eval();
  Batch batch;
  batch.inputs = torch::zeros({1, 4}, torch::kLong);
  const auto silenced = [&](const LayerNames& names) {
    EXPECT_EQ(ReplaceLayers(*gpt, ReplaceNamed(names, std::make_shared<ScaledLayer>(0))), names);
    return gpt->forward(batch).tensor().clone();
  };
  const at::Tensor before = gpt->forward(batch).tensor().clone();
  const at::Tensor without_attention = silenced({"transformer.blocks.1.attn"});
  EXPECT_FALSE(torch::equal(before, without_attention));
  const at::Tensor without_both = silenced({"transformer.blocks.1.mlp"});
  EXPECT_FALSE(torch::equal(without_attention, without_both));
  // A block without both parts hands its input on.
  EXPECT_EQ(ReplaceLayers(*gpt, ReplaceNamed({"transformer.blocks.1"}, std::make_shared<ScaledLayer>(1))).size(), 1u);
  EXPECT_TRUE(torch::equal(gpt->forward(batch), without_both));
  const auto resnet = MakeResNetSmall({.classes = 4, .widths = {8}, .stem_stride = 1, .image_size = 8});
  EXPECT_THAT(ReplaceLayers(*resnet, ReplaceNamed({"layer1.0"}, std::make_shared<ScaledLayer>(0))),
              ElementsAre("layer1.0"));
}

LayerPolicy ScaleNorms(double factor) {
  return MakeLayerPolicy<LayerNormLayer, ScaledLayer>(
      "any", "scaled", [factor](const std::string& name, const std::shared_ptr<LayerNormLayer>& norm) {
        return name == "transformer.ln_f" ? nullptr : std::make_shared<ScaledLayer>(factor, norm);
      });
}

TEST(LayerPolicies, TheFirstThatReplacesWinsAndWhatItMadeIsLeft) {
  const auto gpt = MakeGpt({.layers = 1, .heads = 2, .width = 8, .context = 4, .vocab = 11});
  const ReplacementPolicy own = [](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const bool is_norm = dynamic_cast<const LayerNormLayer*>(module.get()) != nullptr;
    return is_norm ? std::make_shared<LinearLayer>(8, 8) : nullptr;
  };
  const std::vector<LayerPolicy> policies = {ScaleNorms(2), ScaleNorms(3)};
  EXPECT_THAT(ReplaceLayers(*gpt, policies, own),
              ElementsAre("transformer.blocks.0.ln_1", "transformer.blocks.0.ln_2", "transformer.ln_f"));
  EXPECT_EQ(gpt->named_parameters().keys()[2], "transformer.blocks.0.ln_1.inner.weight");
  EXPECT_TRUE(gpt->named_parameters().contains("transformer.ln_f.bias"));
  EXPECT_THAT(ReplaceLayers(*gpt, policies, own), IsEmpty()) << "neither what they made nor what is in it";
}

TEST(ReplaceLayers, WrapsALayerAndDoesNotAskForWhatIsInsideTheWrapper) {
  torch::manual_seed(0);
  const auto model = MakeMlp({3, 4, 2});
  Batch batch;
  batch.inputs = torch::randn({2, 3});
  const at::Tensor before = model->forward(batch);
  const ReplacementPolicy twice = [](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const bool is_linear = dynamic_cast<torch::nn::LinearImpl*>(module.get()) != nullptr;
    return is_linear ? std::make_shared<ScaledLayer>(2, module) : nullptr;
  };
  model->eval();
  EXPECT_THAT(ReplaceLayers(*model, twice), ElementsAre("layers.0", "layers.1"));
  EXPECT_EQ(model->named_parameters().keys(), (LayerNames{"layers.0.inner.weight", "layers.0.inner.bias",
                                                          "layers.1.inner.weight", "layers.1.inner.bias"}));
  for (const auto& module : model->modules()) EXPECT_FALSE(module->is_training()) << module->name();
  const at::Tensor once = model->forward(batch);
  EXPECT_FALSE(torch::equal(once, before));
  // What was put in can be replaced in turn, before and after a forward.
  EXPECT_EQ(ReplaceLayers(*model, twice).size(), 2u);
  EXPECT_EQ(model->named_parameters().keys()[0], "layers.0.inner.inner.weight");
  const auto zero = std::make_shared<ScaledLayer>(0);
  EXPECT_THAT(ReplaceLayers(*model, ReplaceNamed({"layers.1"}, zero)), ElementsAre("layers.1"));
  EXPECT_EQ(model->forward(batch)->abs().sum().item<float>(), 0);
}

TEST(ReplaceLayers, ReplacesASharedLayerOnceInAllItsPlaces) {
  SharingNet net;
  int asked = 0;
  const auto policy = [&](const std::string& name, const std::shared_ptr<torch::nn::Module>&) {
    if (name != "first" && name != "second") return std::shared_ptr<ScaledLayer>();
    ++asked;
    return std::make_shared<ScaledLayer>(3);
  };
  EXPECT_THAT(ReplaceLayers(net, policy), ElementsAre("first", "second"));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(net.forward(torch::ones({1})).item<float>(), 9);
}

TEST(ReplaceLayers, RefusesWhatTheModelWouldNotUse) {
  SharingNet net;
  const auto replace = [&](const std::string& name) {
    return ErrorOf([&] { ReplaceLayers(net, ReplaceNamed({name}, std::make_shared<ScaledLayer>(1))); });
  };
  EXPECT_THAT(replace("loose"),
              HasSubstr("layer loose (composer::LinearLayer) cannot be replaced: its model does not"));
  EXPECT_THAT(replace("typed"), HasSubstr("its slot holds another kind of layer"));
  EXPECT_THAT(ErrorOf([&] { ReplaceLayers(net, ReplaceNamed({"first"}, torch::nn::Linear(2, 2).ptr())); }),
              HasSubstr("cannot be replaced by a torch::nn::LinearImpl"));
  EXPECT_EQ(net.forward(torch::ones({1, 2})).sizes(), (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace composer
