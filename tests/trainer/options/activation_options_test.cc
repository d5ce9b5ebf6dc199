// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/activation_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "trainer/parallel/activations/wrap_activations.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ChooseBlocks, ByPlaceOrByType) {
  const std::vector<std::string> types = {"Attention", "Mlp", "Attention", "Mlp", "Head"};
  const struct {
    BlockChoice choice;
    std::vector<size_t> chosen;
  } cases[] = {
      {{0, {}}, {}},  {{1, {}}, {0, 1, 2, 3, 4}}, {{2, {}}, {0, 2, 4}},
      {{9, {}}, {0}}, {{0, {"Mlp"}}, {1, 3}},     {{0, {"Head", "Attention"}}, {0, 2, 4}},
  };
  for (const auto& [choice, chosen] : cases) EXPECT_EQ(*ChooseBlocks(choice, types), chosen);
}

TEST(ChooseBlocks, NamesTheTypesThereAre) {
  const auto chosen = ChooseBlocks({0, {"Atention"}}, {"Mlp", "Attention", "Mlp"});
  EXPECT_EQ(chosen.status().message(), "the model has no block of type Atention; it has Attention, Mlp");
}

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
  EXPECT_EQ(BlockType(*net.cells[0]), "Cell");
  options.checkpoint.every = 2;
  EXPECT_EQ(*WrapActivations(net, options, at::kCPU), "activation checkpointing: 2 of 3 blocks");
  at::Tensor x = torch::ones({2}).requires_grad_();
  for (const auto& cell : net.cells) x = cell->forward(x);
  x.sum().backward();
  EXPECT_EQ(net.cells[0]->calls, 2);
  EXPECT_EQ(net.cells[1]->calls, 1);
  EXPECT_EQ(net.cells[2]->calls, 2);
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
