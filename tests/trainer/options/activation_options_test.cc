// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/activation_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "trainer/layers/layer_list.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/parallel/activations/wrap_activations.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Cell final : public Block {
 public:
  int calls = 0;

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    ++calls;
    return inputs[0].exp();
  }
};

struct CellNet final : torch::nn::Module {
  CellNet() {
    for (int i = 0; i < 3; ++i) cells.push_back(register_module("cell" + std::to_string(i), std::make_shared<Cell>()));
  }
  std::vector<std::shared_ptr<Cell>> cells;
};

TEST(WrapActivations, WrapsWhatIsChosenAndSaysSo) {
  CellNet net;
  ActivationOptions options;
  EXPECT_EQ(*WrapActivations(net, options, at::kCPU), "");
  EXPECT_FALSE(net.cells[0]->is_wrapped());
  EXPECT_THAT(TypesOf(*net.cells[0]), ElementsAre("Cell"));
  options.checkpoint.every = 2;
  EXPECT_EQ(*WrapActivations(net, options, at::kCPU), "activation checkpointing: 2 of 3 blocks");
  at::Tensor x = torch::ones({2}).requires_grad_();
  for (const auto& cell : net.cells) x = cell->forward(x);
  x.sum().backward();
  EXPECT_EQ(net.cells[0]->calls, 2);
  EXPECT_EQ(net.cells[1]->calls, 1);
  EXPECT_EQ(net.cells[2]->calls, 2);
}

TEST(WrapActivations, ChoosesByTypeAndNameAlsoWhatKnowsNothingOfBlocks) {
  const auto wrapped = [](ActivationOptions options) {
    const auto mlp = MakeMlp({8, 16, 16, 4});
    return *WrapActivations(*mlp, options, at::kCPU);
  };
  EXPECT_EQ(wrapped({.checkpoint = {0, {{"Linear"}, nullptr}}}), "activation checkpointing: 3 of 3 layers");
  EXPECT_EQ(wrapped({.checkpoint = {2, {{"Linear"}, nullptr}}}), "activation checkpointing: 2 of 3 layers");
  EXPECT_EQ(wrapped({.checkpoint = {1, {{"layers.1", "ReLU"}, nullptr}}}), "activation checkpointing: 2 of 2 layers");
  CellNet net;
  ActivationOptions one;
  one.checkpoint.layers.texts = {"cell1"};
  EXPECT_EQ(*WrapActivations(net, one, at::kCPU), "activation checkpointing: 1 of 1 layers");
  EXPECT_FALSE(net.cells[0]->is_wrapped());
  EXPECT_TRUE(net.cells[1]->is_wrapped());
}

// Counts its calls; knows nothing of blocks.
class CountedLayer final : public torch::nn::Module, public Layer {
 public:
  int calls = 0;
  at::Tensor forward(const at::Tensor& x) override {
    ++calls;
    return (x * weight_).exp();
  }

 private:
  at::Tensor weight_ = register_parameter("weight", torch::full({}, 0.5));
};

TEST(WrapActivations, ALayerInASlotRunsAgainInBackward) {
  LayerSequence net({std::make_shared<CountedLayer>(), std::make_shared<CountedLayer>()});
  const auto counted = [&](const char* name) { return net.named_children()[name]->as<CountedLayer>(); };
  const at::Tensor x = torch::full({3}, 0.25);
  net.forward(x).sum().backward();
  const at::Tensor expected = net.named_parameters()["0.weight"].grad().clone();
  net.zero_grad();
  ActivationOptions options;
  options.checkpoint.layers.texts = {"0"};
  ASSERT_TRUE(WrapActivations(net, options, at::kCPU).ok());
  net.forward(x).sum().backward();
  EXPECT_EQ(counted("0")->calls, 3);
  EXPECT_EQ(counted("1")->calls, 2);
  EXPECT_TRUE(torch::equal(net.named_parameters()["0.weight"].grad(), expected));
}

TEST(WrapActivations, NamesWhatCannotBeChosen) {
  const auto error = [](const torch::nn::Module& model, std::string text) {
    return std::string(CandidatesOf(model, {0, {{std::move(text)}, nullptr}}).status().message());
  };
  const auto gpt = MakeGpt({.layers = 1, .heads = 1, .width = 4, .context = 4, .vocab = 5});
  EXPECT_THAT(error(*gpt, "Atention"), HasSubstr("`Atention` chooses no layer of Gpt (did you mean `Attention`?)"));
  EXPECT_THAT(error(*gpt, "transformer.wpe"), HasSubstr("the layer around it uses more of it than its forward"));
  EXPECT_THAT(error(*gpt, "*.core"), HasSubstr("layer transformer.blocks.0.attn.core (composer::DotProductAttention) "
                                               "cannot be: it is neither a Block"));
  EXPECT_THAT(error(*gpt, "transformer"), HasSubstr("it is neither a Block"));
}

TEST(WrapActivations, OffloadOnACpuSaysThatItDoesNothing) {
  CellNet net;
  ActivationOptions options;
  options.cpu_offload = true;
  EXPECT_THAT(*WrapActivations(net, options, at::kCPU), HasSubstr("activation_cpu_offload does nothing"));
  EXPECT_FALSE(net.cells[0]->is_wrapped());
}

TEST(WrapActivations, RefusesAModelWithoutBlocks) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2));
  ActivationOptions options;
  options.checkpoint.every = 1;
  EXPECT_THAT(std::string(WrapActivations(*net, options, at::kCPU).status().message()),
              HasSubstr("activation_checkpointing: model torch::nn::SequentialImpl names no blocks"));
}

}  // namespace
}  // namespace composer
