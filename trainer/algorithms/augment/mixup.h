// MixUp trains on sums of two samples and of their targets:
//
//   x <- (1 - m) x + m x[p],  t <- (1 - m) t + m t[p],  m = min(b, 1 - b), b drawn from Beta(alpha, alpha)
//
// with one m and one permutation p for the rank's whole batch, at BATCH_START, so that the size of microbatches changes
// nothing (Composer draws for each microbatch). Targets are mixed as dense ones before the loss; with interpolate_loss
// the losses of the two are, which is the same for losses that are linear in the targets. Metrics see the given
// targets. The model must take dense targets, or with interpolate_loss any, and inputs that are floating point. Source:
// Zhang et al. 2018, arXiv:1710.09412; mosaicml composer/algorithms/mixup/mixup.py. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/algorithms/augment/pair_mixing.h"

namespace composer {

struct MixUpOptions {
  double alpha = 0.2;  // >= 0; 0 mixes nothing
  bool interpolate_loss = false;
};

// Returns (1 - mixing) x + mixing x[permutation] for x [B, *] and int64 permutation [B].
at::Tensor MixUpBatch(const at::Tensor& x, double mixing, const at::Tensor& permutation);
// Draws m by torch's generator; between 0 and 0.5.
double DrawMixing(double alpha);

class MixUp final : public PairMixing {
 public:
  explicit MixUp(const MixUpOptions& options = {}) : PairMixing("mixup", options.interpolate_loss), options_(options) {}
  std::string name() const override { return "MixUp"; }

 private:
  Mixed MixInputs(Batch& batch) override;

  const MixUpOptions options_;
};

}  // namespace composer
