// Compares torch's optimizers with torch (tests/golden/torch_optimizers.json, torch_more_optimizers.json).
// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/torch_optimizers.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/optim/adafactor.h"
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

template <typename Made, typename Options>
MakeOptimizer Reading(Options (*read)(const Json& args)) {
  return [read](std::vector<ParamGroup> groups, const Json& args) {
    return std::make_unique<Made>(std::move(groups), read(args));
  };
}

TEST(TorchOptimizersTest, Adagrad) {
  const auto make = Reading<AdagradOptimizer, AdagradOptions>([](const Json& args) {
    const AdagradOptions usual;
    return AdagradOptions{args.value("lr_decay", usual.lr_decay),
                          args.value("initial_accumulator_value", usual.initial_accumulator_value),
                          args.value("eps", usual.eps)};
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "Adagrad", make, 2e-6), 2);
}

TEST(TorchOptimizersTest, Adadelta) {
  const auto make = Reading<AdadeltaOptimizer, AdadeltaOptions>([](const Json& args) {
    return AdadeltaOptions{args.value("rho", AdadeltaOptions().rho), args.value("eps", AdadeltaOptions().eps)};
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "Adadelta", make, 1e-6), 2);
}

template <typename Options>
Options WithBetas(const Json& args) {
  Options options;
  if (args.contains("betas")) options.beta1 = args["betas"][0], options.beta2 = args["betas"][1];
  options.eps = args.value("eps", options.eps);
  return options;
}

TEST(TorchOptimizersTest, Adamax) {
  const auto make = Reading<AdamaxOptimizer, AdamaxOptions>(WithBetas<AdamaxOptions>);
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "Adamax", make, 2e-6), 2);
}

TEST(TorchOptimizersTest, NAdam) {
  const auto make = Reading<NAdamOptimizer, NAdamOptions>([](const Json& args) {
    NAdamOptions options = WithBetas<NAdamOptions>(args);
    options.momentum_decay = args.value("momentum_decay", options.momentum_decay);
    options.decoupled_weight_decay = args.value("decoupled_weight_decay", false);
    return options;
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "NAdam", make, 2e-6), 3);
}

TEST(TorchOptimizersTest, RAdam) {
  const auto make = Reading<RAdamOptimizer, RAdamOptions>([](const Json& args) {
    RAdamOptions options = WithBetas<RAdamOptions>(args);
    options.decoupled_weight_decay = args.value("decoupled_weight_decay", false);
    return options;
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "RAdam", make, 2e-6), 3);
}

TEST(TorchOptimizersTest, Asgd) {
  const auto make = Reading<AsgdOptimizer, AsgdOptions>([](const Json& args) {
    const AsgdOptions usual;
    return AsgdOptions{args.value("lambd", usual.lambd), args.value("alpha", usual.alpha), args.value("t0", usual.t0)};
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "ASGD", make, 1e-6), 2);
}

TEST(TorchOptimizersTest, Adafactor) {
  const auto make = Reading<AdafactorOptimizer, AdafactorOptions>([](const Json& args) {
    AdafactorOptions options;
    options.beta2_decay = args.value("beta2_decay", options.beta2_decay);
    if (args.contains("eps")) options.eps1 = args["eps"][0], options.eps2 = args["eps"][1];
    options.d = args.value("d", options.d);
    return options;
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "Adafactor", make, 2e-6), 2);
}

TEST(TorchOptimizersTest, Rprop) {
  const auto make = Reading<RpropOptimizer, RpropOptions>([](const Json& args) {
    RpropOptions options;
    if (args.contains("etas")) options.eta_minus = args["etas"][0], options.eta_plus = args["etas"][1];
    if (args.contains("step_sizes")) options.min_step = args["step_sizes"][0], options.max_step = args["step_sizes"][1];
    return options;
  });
  EXPECT_EQ(ReplayGolden("torch_more_optimizers", "Rprop", make, 2e-6), 2);
}

TEST(TorchOptimizersTest, AsgdAveragesAfterT0) {
  const at::Tensor param = torch::full({1}, 1.0, torch::requires_grad());
  AsgdOptimizer optimizer(OneGroup({param}, 0.5, 0), {.lambd = 0, .alpha = 0, .t0 = 1});
  double sum = 0;
  for (int step = 0; step < 4; ++step) {
    param.mutable_grad() = torch::ones({1});
    optimizer.Step();
    if (step > 1) sum += param.item<double>();
  }
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name == "p0/ax") EXPECT_FLOAT_EQ(tensor.item<float>(), static_cast<float>(sum / 2));
  }
}

TEST(TorchOptimizersTest, MoreOptimizersRefuseBadOptions) {
  EXPECT_EQ(Validate(AdagradOptions{-1}).message(), "lr_decay: -1, must be >= 0");
  EXPECT_EQ(Validate(AdadeltaOptions{2}).message(), "rho: 2, must be in [0, 1]");
  EXPECT_EQ(Validate(AdamaxOptions{1}).message(), "beta1: 1, must be in [0, 1)");
  EXPECT_EQ(Validate(NAdamOptions{.momentum_decay = -1}).message(), "momentum_decay: -1, must be >= 0");
  EXPECT_EQ(Validate(RAdamOptions{.eps = -1}).message(), "eps: -1, must be >= 0");
  EXPECT_EQ(Validate(AsgdOptions{.t0 = std::numeric_limits<double>::infinity()}).message(),
            "t0: inf, must be a number");
  EXPECT_EQ(Validate(RpropOptions{.eta_plus = 1}).message(), "eta_plus: 1, must be > 1");
  EXPECT_EQ(Validate(RpropOptions{.max_step = 0}).message(), "max_step: 0, must be >= min_step");
  EXPECT_EQ(Validate(AdafactorOptions{.beta2_decay = 1}).message(), "beta2_decay: 1, must be <= 0");
  EXPECT_EQ(Validate(AdafactorOptions{.eps1 = -1}).message(), "eps1: -1, must be >= 0");
  EXPECT_EQ(Validate(AdafactorOptions{.d = 0.5}).message(), "d: 0.5, must be >= 1");
  EXPECT_THROW(AdagradOptimizer({}, {.eps = -1}), c10::ValueError);
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
