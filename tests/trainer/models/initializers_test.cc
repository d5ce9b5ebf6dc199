// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/initializers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>

namespace composer {
namespace {

struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4096));
    block = register_module("block", torch::nn::Sequential(torch::nn::Linear(100, 300)));
    bare = register_module("bare", torch::nn::Linear(torch::nn::LinearOptions(4, 4).bias(false)));
  }
  at::Tensor linear() { return block[0]->as<torch::nn::Linear>()->weight; }
  at::Tensor linear_bias() { return block[0]->as<torch::nn::Linear>()->bias; }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential block{nullptr};
  torch::nn::Linear bare{nullptr};
};

double Std(const at::Tensor& weight) { return weight.detach().std().item<double>(); }
double Largest(const at::Tensor& weight) { return weight.detach().abs().max().item<double>(); }

class InitializersTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<std::string>& names) {
    torch::manual_seed(9);
    ASSERT_TRUE(InitializeModel(names, net_).ok());
  }
  Net net_;
};

// The standard deviations are kaiming sqrt(2 / fan in) and xavier sqrt(2 / (fan in + fan out)); a uniform
// distribution's bound is sqrt(3) times that. For conv, fan in is 144 and fan out 288.
TEST_F(InitializersTest, WeightsHaveTheirScale) {
  const double kaiming_conv = std::sqrt(2.0 / 144), kaiming_linear = std::sqrt(2.0 / 100);
  const double xavier_conv = std::sqrt(2.0 / 432), xavier_linear = std::sqrt(2.0 / 400);
  Apply({"kaiming_normal"});
  EXPECT_NEAR(Std(net_.conv->weight), kaiming_conv, 0.05 * kaiming_conv);
  EXPECT_NEAR(Std(net_.linear()), kaiming_linear, 0.05 * kaiming_linear);
  EXPECT_GT(Largest(net_.linear()), 2 * kaiming_linear);
  Apply({"kaiming_uniform"});
  EXPECT_NEAR(Largest(net_.conv->weight), std::sqrt(3.0) * kaiming_conv, 0.01 * kaiming_conv);
  EXPECT_NEAR(Largest(net_.linear()), std::sqrt(3.0) * kaiming_linear, 0.01 * kaiming_linear);
  Apply({"xavier_normal"});
  EXPECT_NEAR(Std(net_.conv->weight), xavier_conv, 0.05 * xavier_conv);
  EXPECT_NEAR(Std(net_.linear()), xavier_linear, 0.05 * xavier_linear);
  EXPECT_GT(Largest(net_.linear()), 2 * xavier_linear);
  Apply({"xavier_uniform"});
  EXPECT_NEAR(Largest(net_.conv->weight), std::sqrt(3.0) * xavier_conv, 0.01 * xavier_conv);
  EXPECT_NEAR(Largest(net_.linear()), std::sqrt(3.0) * xavier_linear, 0.01 * xavier_linear);
}

TEST_F(InitializersTest, NormsAndBiases) {
  Apply({"bn_uniform", "linear_log_constant_bias"});
  EXPECT_GE(net_.norm->weight.min().item<double>(), 0);
  EXPECT_NEAR(net_.norm->weight.mean().item<double>(), 0.5, 0.03);
  EXPECT_GT(net_.norm->weight.max().item<double>(), 0.99);
  EXPECT_EQ(Largest(net_.norm->bias), 0);
  EXPECT_NEAR(net_.linear_bias()[7].item<double>(), -std::log(300.0), 1e-6);
  Apply({"bn_ones"});
  EXPECT_TRUE(torch::equal(net_.norm->weight, torch::ones({4096})));
  EXPECT_TRUE(net_.norm->weight.requires_grad());
}

TEST_F(InitializersTest, AnUnknownNameChangesNothing) {
  const at::Tensor before = net_.linear().detach().clone();
  const absl::Status status = InitializeModel({"xavier_normal", "xavier_uniforn"}, net_);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("did you mean `xavier_uniform`?"));
  EXPECT_TRUE(torch::equal(net_.linear(), before));
}

}  // namespace
}  // namespace composer
