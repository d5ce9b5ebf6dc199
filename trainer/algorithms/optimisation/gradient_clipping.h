// GradientClipping bounds the gradients of a step before the update, at AFTER_TRAIN_BATCH, when they are the sums over
// all ranks and unscaled:
//
//   norm       g <- g min(1, threshold / (|g| + 1e-6)), |g| the 2-norm of all gradients together
//   value      each element is clamped to [-threshold, threshold]
//   adaptive   row by row (a parameter's first dimension; one with fewer than two dimensions is one row):
//              g <- g min(1, threshold max(|w|, 1e-3) / max(|g|, 1e-3)); Brock et al. 2021, arXiv:2102.06171
//
// The numbers are the same whether parameters are sharded or not, in host memory to the last bit; `adaptive` is equal
// up to rounding with tensor parallelism. Source: mosaicml composer/algorithms/gradient_clipping/gradient_clipping.py,
// whose `value` is under FSDP a clipping by the largest element, g <- g min(1, threshold / (max |g| + 1e-6)), which
// ScaleShardedByLargest does, too, and whose `adaptive` does not exist there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "trainer/core/callback.h"

namespace composer {

enum class ClippingType { kNorm, kValue, kAdaptive };

class GradientClipping final : public Algorithm {
 public:
  // threshold > 0.
  GradientClipping(ClippingType type, double threshold) : type_(type), threshold_(threshold) {}
  std::string name() const override { return "GradientClipping"; }
  EventSet events() const override { return {Event::kAfterTrainBatch}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  // Clips a sharded model by `value` as Composer.
  void ScaleShardedByLargest() { scales_sharded_ = true; }

 private:
  ClippingType type_;
  double threshold_;
  bool scales_sharded_ = false;
};

}  // namespace composer
