// Tests what optimizer.h promises, for every optimizer.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <set>

#include "tests/trainer/optim/optimizer_golden.h"
#include "trainer/optim/adafactor.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/lion.h"
#include "trainer/optim/muon.h"
#include "trainer/optim/rmsprop.h"
#include "trainer/optim/sgd.h"
#include "trainer/optim/torch_optimizers.h"

namespace composer {
namespace {

struct Case {
  const char* label;
  const char* name;
  std::function<std::unique_ptr<Optimizer>(std::vector<ParamGroup>)> make;
};

template <typename Made, typename Options>
Case Of(const char* label, const char* name, const Options& options) {
  return {label, name,
          [options](std::vector<ParamGroup> groups) { return std::make_unique<Made>(std::move(groups), options); }};
}

// Muon gets the two matrices, and its AdamW all others.
template <bool kNorMuon>
std::unique_ptr<Optimizer> MakeMuon(std::vector<ParamGroup> groups) {
  NamedTensors parameters;
  for (size_t i = 0; i < groups[0].params.size(); ++i) {
    parameters.emplace_back(groups[0].names[i], groups[0].params[i]);
  }
  MuonGroupOptions options;
  options.lr = options.adamw_lr = groups[0].lr;
  MuonOptions muon;
  if (kNorMuon) muon.second_beta = 0.9;
  return std::make_unique<MuonOptimizer>(MakeMuonGroups(parameters, options).value(), muon);
}

class OptimizerContractTest : public ::testing::TestWithParam<Case> {
 protected:
  static std::vector<at::Tensor> Parameters() {
    torch::manual_seed(5);
    std::vector<at::Tensor> params;
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{6, 4}, {17}, {6, 4}, {2, 3, 2}}) {
      params.push_back(torch::randn(shape).requires_grad_(true));
    }
    return params;
  }
  static std::unique_ptr<Optimizer> Make(const std::vector<at::Tensor>& params) {
    return GetParam().make(OneGroup(params, 0.01, 0.1));
  }
  static void SetGrads(const std::vector<at::Tensor>& params, int step) {
    for (size_t i = 0; i < params.size(); ++i) {
      const int64_t n = params[i].numel();
      params[i].mutable_grad() = (torch::arange(n) * (step + 2 + static_cast<int>(i))).sin().reshape(params[i].sizes());
    }
  }
  static std::vector<at::Tensor> Copy(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone().requires_grad_(true));
    return copies;
  }
  static void ExpectEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
  }
  static std::vector<at::Tensor> StateOf(Optimizer& optimizer) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : optimizer.state()) tensors.push_back(tensor.clone());
    return tensors;
  }
};

TEST_P(OptimizerContractTest, HasANameAndMovesItsParameters) {
  const auto params = Parameters(), before = Copy(params);
  const auto optimizer = Make(params);
  EXPECT_EQ(optimizer->name(), GetParam().name);
  SetGrads(params, 0);
  optimizer->Step();
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_FALSE(torch::equal(params[i], before[i])) << i;
    EXPECT_TRUE(params[i].isfinite().all().item<bool>()) << i;
  }
}

TEST_P(OptimizerContractTest, StateIsThereFromTheStartAndStaysInPlace) {
  const auto params = Parameters();
  const auto optimizer = Make(params);
  const NamedTensors first = optimizer->state();
  std::set<std::string> names;
  for (const auto& [name, tensor] : first) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(tensor.defined()) << name;
  }
  for (int step = 0; step < 2; ++step) SetGrads(params, step), optimizer->Step();
  const NamedTensors later = optimizer->state();
  ASSERT_EQ(first.size(), later.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].second.is_same(later[i].second)) << first[i].first;
}

TEST_P(OptimizerContractTest, GoesOnExactlyFromCopiedState) {
  for (const int saved_after : {0, 1, 3}) {
    const auto params = Parameters();
    const auto first = Make(params);
    for (int step = 0; step < saved_after; ++step) SetGrads(params, step), first->Step();
    const auto resumed = Copy(params);
    const auto second = Make(resumed);
    CopyState(*first, *second);
    for (int step = saved_after; step < 5; ++step) {
      SetGrads(params, step), first->Step();
      SetGrads(resumed, step), second->Step();
    }
    ExpectEqual(params, resumed);
  }
}

TEST_P(OptimizerContractTest, ParametersWithoutAGradientAreLeftAlone) {
  const auto params = Parameters(), alone = Copy(params);
  const auto both = Make(params), others = Make(alone);
  for (int step = 0; step < 3; ++step) {
    SetGrads(params, step);
    SetGrads(alone, step);
    if (step == 1) params[0].mutable_grad().reset(), params[1].mutable_grad().reset();
    const auto before = Copy(params);
    both->Step();
    if (step != 1) continue;
    EXPECT_TRUE(torch::equal(params[0], before[0]));
    EXPECT_TRUE(torch::equal(params[1], before[1]));
    EXPECT_FALSE(torch::equal(params[2], before[2]));
  }
  for (int step = 0; step < 3; ++step) {
    SetGrads(alone, step);
    if (step == 1) alone[0].mutable_grad().reset(), alone[1].mutable_grad().reset();
    others->Step();
  }
  ExpectEqual(params, alone);
}

TEST_P(OptimizerContractTest, AStepThatLossScalingGivesUpChangesNothing) {
  for (const int at : {0, 2}) {
    const auto params = Parameters(), plain = Copy(params);
    const auto scaled = Make(params), reference = Make(plain);
    for (int step = 0; step < 4; ++step) {
      SetGrads(params, step);
      SetGrads(plain, step);
      if (step == at) {
        const auto before = Copy(params), state = StateOf(*scaled);
        for (const at::Tensor& param : params) param.mutable_grad().fill_(INFINITY);
        scaled->StepUnless(torch::ones({1}));
        ExpectEqual(params, before);
        ExpectEqual(StateOf(*scaled), state);
      } else {
        scaled->StepUnless(torch::zeros({1}));
        reference->Step();
      }
    }
    ExpectEqual(params, plain);
    ExpectEqual(StateOf(*scaled), StateOf(*reference));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerContractTest,
    ::testing::Values(
        Of<SgdOptimizer>("Sgd", "SGD", SgdOptions{}), Of<SgdOptimizer>("SgdNesterov", "SGD", SgdOptions{0.9, 0, true}),
        Of<SgdOptimizer>("SgdDampened", "SGD", SgdOptions{0.9, 0.5}),
        Of<DecoupledSgdwOptimizer>("DecoupledSgdw", "DecoupledSGDW", SgdwOptions{0.9}),
        Of<AdamOptimizer>("Adam", "Adam", AdamOptions{}),
        Of<AdamWOptimizer>("AdamWAmsgrad", "AdamW", AdamOptions{0.9, 0.99, 1e-8, true}),
        Of<DecoupledAdamWOptimizer>("DecoupledAdamW", "DecoupledAdamW", AdamWOptions{}),
        Of<AdamWOptimizer>("AdamWBf16State", "AdamW", AdamOptions{.bf16_state = true}),
        Of<RmspropOptimizer>("Rmsprop", "RMSprop", RmspropOptions{}),
        Of<RmspropOptimizer>("RmspropCentered", "RMSprop", RmspropOptions{0.9, 1e-6, 0.9, true}),
        Of<AdagradOptimizer>("Adagrad", "Adagrad", AdagradOptions{.lr_decay = 0.1}),
        Of<AdadeltaOptimizer>("Adadelta", "Adadelta", AdadeltaOptions{}),
        Of<AdamaxOptimizer>("Adamax", "Adamax", AdamaxOptions{}), Of<NAdamOptimizer>("NAdam", "NAdam", NAdamOptions{}),
        Of<RAdamOptimizer>("RAdam", "RAdam", RAdamOptions{.beta2 = 0.6}),
        Of<AsgdOptimizer>("Asgd", "ASGD", AsgdOptions{.lambd = 0.1, .t0 = 1}),
        Of<AdafactorOptimizer>("Adafactor", "Adafactor", AdafactorOptions{}),
        Of<RpropOptimizer>("Rprop", "Rprop", RpropOptions{}), Of<LionOptimizer>("Lion", "Lion", LionOptions{}),
        Case{"Muon", "Muon", MakeMuon<false>}, Case{"NorMuon", "NorMuon", MakeMuon<true>}),
    [](const ::testing::TestParamInfo<Case>& tested) { return std::string(tested.param.label); });

}  // namespace
}  // namespace composer
