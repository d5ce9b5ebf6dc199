// Runs with algorithms and optimizers that change a step: gradient clipping, SAM, LBFGS, SelectiveBackprop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "tests/trainer/loop/small_run.h"
#include "trainer/algorithms/augment/label_smoothing.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"
#include "trainer/optim/recipes.h"

namespace composer {

struct StepAlgorithm {
  std::optional<ClippingType> clipping;
  double threshold = 0.05;
  std::optional<SamOptions> sam;
  std::optional<double> label_smoothing;
  std::optional<LbfgsOptions> lbfgs;
  double lbfgs_lr = 0.1;
  std::optional<SelectiveBackpropOptions> selective_backprop;
};

inline void AddStepAlgorithm(TrainerOptions& options, const StepAlgorithm& algorithm) {
  options.make_optimizer = DecoupledSGDW(0.5, {.momentum = 0.9});
  if (algorithm.clipping)
    options.algorithms.push_back(std::make_unique<GradientClipping>(*algorithm.clipping, algorithm.threshold));
  if (algorithm.label_smoothing)
    options.algorithms.push_back(std::make_unique<LabelSmoothing>(*algorithm.label_smoothing));
  if (algorithm.sam) options.algorithms.push_back(std::make_unique<Sam>(*algorithm.sam));
  if (algorithm.selective_backprop)
    options.algorithms.push_back(std::make_unique<SelectiveBackprop>(*algorithm.selective_backprop));
  if (algorithm.lbfgs) options.make_optimizer = LBFGS(algorithm.lbfgs_lr, *algorithm.lbfgs);
}

inline TrainerOptions StepRun(const StepAlgorithm& algorithm) {
  TrainerOptions options = SmallRun();
  AddStepAlgorithm(options, algorithm);
  return options;
}

}  // namespace composer
