// LabelSmoothing trains on targets between the given ones and a uniform distribution over the classes:
//
//   t <- (1 - smoothing) t + smoothing / C
//
// Targets are made dense for the loss and restored after it; metrics see the given ones. The model's loss must take
// dense targets [B, C, *], as classifiers do. Source: Szegedy et al. 2016, arXiv:1512.00567; mosaicml
// composer/algorithms/label_smoothing/label_smoothing.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/callback.h"

namespace composer {

// targets are int64 [B, *] or dense [B, C, *] for logits [B, C, *]. Returns dense ones of the logits' dtype. Throws
// c10::ValueError when the shapes do not fit.
at::Tensor SmoothLabels(const at::Tensor& logits, const at::Tensor& targets, double smoothing = 0.1);

class LabelSmoothing final : public Algorithm {
 public:
  // smoothing is between 0 and 1.
  explicit LabelSmoothing(double smoothing = 0.1) : smoothing_(smoothing) {}
  std::string name() const override { return "LabelSmoothing"; }
  EventSet events() const override { return {Event::kBeforeLoss, Event::kAfterLoss}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  double smoothing_;
  at::Tensor given_;  // targets, between the two events
};

}  // namespace composer
