// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include <string>

namespace composer {
namespace {

class Doubles final : public Block {
 public:
  int calls = 0;

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    ++calls;
    return inputs.size() > 1 ? 2 * inputs[0] + inputs[1] : 2 * inputs[0];
  }
};

// Records when it is entered and left, and adds to the output.
class Adds final : public BlockWrapper {
 public:
  Adds(std::string name, double what, std::vector<std::string>& log) : name_(std::move(name)), what_(what), log_(log) {}
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override {
    log_.push_back("into " + name_);
    const at::Tensor output = inner(inputs) + what_;
    log_.push_back("out of " + name_);
    last.emplace_back(inner);
    return output;
  }
  std::vector<Inner> last;

 private:
  std::string name_;
  double what_;
  std::vector<std::string>& log_;
};

TEST(Block, UnwrappedComputes) {
  Doubles block;
  EXPECT_EQ(block.forward(torch::ones({})).item<double>(), 2);
  EXPECT_EQ(block.Run({torch::ones({}), torch::full({}, 5)}).item<double>(), 7);
  EXPECT_FALSE(block.is_wrapped());
}

TEST(Block, TheLastWrapperIsTheOutermost) {
  Doubles block;
  std::vector<std::string> log;
  const auto first = std::make_shared<Adds>("first", 10, log), second = std::make_shared<Adds>("second", 100, log);
  block.Wrap(first);
  block.Wrap(second);
  EXPECT_EQ(block.forward(torch::ones({})).item<double>(), 112);
  EXPECT_THAT(log, testing::ElementsAre("into second", "into first", "out of first", "out of second"));
  EXPECT_EQ(block.calls, 1);
}

TEST(Block, InnerMayBeCalledAgainLater) {
  Doubles block;
  std::vector<std::string> log;
  const auto first = std::make_shared<Adds>("first", 10, log), second = std::make_shared<Adds>("second", 100, log);
  block.Wrap(first);
  block.Wrap(second);
  block.forward(torch::ones({}));
  EXPECT_EQ(first->last[0]({torch::ones({})}).item<double>(), 2) << "what lies below the first wrapper";
  EXPECT_EQ(second->last[0]({torch::ones({})}).item<double>(), 12) << "what lies below the second";
  EXPECT_EQ(&first->last[0].module(), &block);
}

TEST(Block, CanBePutIntoASequential) {
  torch::nn::Sequential layers(Doubles{}, Doubles{});
  EXPECT_EQ(layers->forward(torch::ones({})).item<double>(), 4);
}

}  // namespace
}  // namespace composer
