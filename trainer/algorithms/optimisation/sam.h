// Sharpness-aware minimisation: the gradient of an update is taken where the loss near the weights is highest.
//
//   e = rho g / (|g| + epsilon), g the gradient at w and |g| the 2-norm of all of it
//   the optimizer makes its step at w with the gradient at w + e
//
// Every `interval`-th step does so; the others are ordinary. With one rank per copy of the parameters (one rank, DDP) g
// is of this rank's samples alone, so that each rank looks in a direction of its own and a step has no more
// collectives; with sharding, tensor parallelism's data ranks aside, or determinism: elastic, it is the gradient of the
// global batch. w is restored to the bit (Composer subtracts e again, and its ranks drift apart by rounding). Nothing
// is saved: which steps are ordinary follows from the number of the batch.
//
// Source: Foret et al. 2021, arXiv:2010.01412; mosaicml composer/algorithms/sam/sam.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "trainer/core/callback.h"

namespace composer {

struct SamOptions {
  double rho = 0.05;       // > 0
  double epsilon = 1e-12;  // >= 0
  int64_t interval = 1;    // >= 1
};

class Sam final : public Algorithm {
 public:
  explicit Sam(const SamOptions& options) : options_(options) {}
  std::string name() const override { return "SAM"; }
  EventSet events() const override { return {}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return false; }
  absl::Status Apply(Event /*event*/, State& /*state*/, Logger& /*logger*/) override { return absl::OkStatus(); }
  // Throws c10::ValueError for an optimizer that evaluates the loss itself (LBFGS, another SAM).
  std::unique_ptr<Optimizer> WrapOptimizer(std::unique_ptr<Optimizer> optimizer, const State& state) override;

 private:
  SamOptions options_;
};

}  // namespace composer
