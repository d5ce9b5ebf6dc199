// Compares SGD, Adam, AdamW and RMSprop with torch 2.11 (tests/golden/torch_optimizers.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/rmsprop.h"
#include "trainer/optim/sgd.h"

namespace composer {
namespace {

using Json = nlohmann::json;

AdamOptions AdamArgs(const Json& args) {
  AdamOptions options;
  if (args.contains("betas")) options.beta1 = args["betas"][0], options.beta2 = args["betas"][1];
  options.eps = args.value("eps", options.eps);
  options.amsgrad = args.value("amsgrad", false);
  return options;
}

TEST(TorchOptimizersTest, AdamOptimizer) {
  const auto make = [](std::vector<ParamGroup> groups, const Json& args) {
    return std::make_unique<AdamOptimizer>(std::move(groups), AdamArgs(args));
  };
  EXPECT_EQ(ReplayGolden("torch_optimizers", "Adam", make, 2e-6), 3);
}

TEST(TorchOptimizersTest, AdamWOptimizer) {
  const auto make = [](std::vector<ParamGroup> groups, const Json& args) {
    return std::make_unique<AdamWOptimizer>(std::move(groups), AdamArgs(args));
  };
  EXPECT_EQ(ReplayGolden("torch_optimizers", "AdamW", make, 2e-6), 3);
}

TEST(TorchOptimizersTest, Sgd) {
  const auto make = [](std::vector<ParamGroup> groups, const Json& args) {
    const SgdOptions options{args.value("momentum", 0.0), args.value("dampening", 0.0), args.value("nesterov", false)};
    return std::make_unique<SgdOptimizer>(std::move(groups), options);
  };
  EXPECT_EQ(ReplayGolden("torch_optimizers", "SGD", make, 1e-6), 4);
}

TEST(TorchOptimizersTest, RmsProp) {
  const auto make = [](std::vector<ParamGroup> groups, const Json& args) {
    RmspropOptions options;
    options.alpha = args.value("alpha", options.alpha);
    options.eps = args.value("eps", options.eps);
    options.momentum = args.value("momentum", options.momentum);
    options.centered = args.value("centered", false);
    return std::make_unique<RmspropOptimizer>(std::move(groups), options);
  };
  // Divisions by roots near 0 (centered) magnify rounding.
  EXPECT_EQ(ReplayGolden("torch_optimizers", "RMSprop", make, 2e-5, 1e-5), 5);
}

TEST(TorchOptimizersTest, RmspropRefusesBadOptions) {
  EXPECT_EQ(Validate(RmspropOptions{-1}).message(), "alpha: -1, must be >= 0");
  EXPECT_EQ(Validate(RmspropOptions{0.9, -1}).message(), "eps: -1, must be >= 0");
  EXPECT_EQ(Validate(RmspropOptions{0.9, 0, -1}).message(), "momentum: -1, must be >= 0");
  const at::Tensor param = torch::zeros({1}).requires_grad_(true);
  EXPECT_THROW(RmspropOptimizer(OneGroup({param}, 0.1, 0), RmspropOptions{-1}), c10::ValueError);
}

// The momentum that one_cycle_lr writes is the one used.
TEST(TorchOptimizersTest, MomentumIsReadFromTheGroup) {
  const at::Tensor fixed = torch::ones({3}).requires_grad_(true), moved = torch::ones({3}).requires_grad_(true);
  SgdOptimizer plain(OneGroup({fixed}, 0.1, 0), {0.5}), cycled(OneGroup({moved}, 0.1, 0), {0.9});
  EXPECT_EQ(cycled.groups()[0].momentum, 0.9);
  cycled.groups()[0].momentum = 0.5;
  for (int step = 0; step < 3; ++step) {
    fixed.mutable_grad() = moved.mutable_grad() = torch::full({3}, 0.3);
    plain.Step();
    cycled.Step();
  }
  EXPECT_TRUE(torch::equal(fixed, moved));
  AdamOptimizer adam(OneGroup({fixed}, 0.1, 0), {});
  EXPECT_EQ(adam.groups()[0].momentum, 0.9);
}

}  // namespace
}  // namespace composer
