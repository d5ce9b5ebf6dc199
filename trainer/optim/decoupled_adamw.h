// Composer's DecoupledAdamW: Adam whose weight decay follows the schedule of the learning rate but not its peak
// (adam_group.h, kDecoupledFromPeak).
//
// Source: mosaicml composer/optim/decoupled_weight_decay.py; Loshchilov & Hutter 2019, arXiv:1711.05101.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/optim/adam.h"

namespace composer {

// Composer's defaults. beta2 differs from torch's.
struct AdamWOptions {
  double beta1 = 0.9;   // [0, 1)
  double beta2 = 0.95;  // [0, 1)
  double eps = 1e-8;    // >= 0
  bool amsgrad = false;
  bool bf16_state = false;
  bool in_backward = false;

  operator AdamOptions() const { return {beta1, beta2, eps, amsgrad, bf16_state, in_backward}; }
};

class DecoupledAdamWOptimizer final : public AdamFamily {
 public:
  DecoupledAdamWOptimizer(std::vector<ParamGroup> groups, const AdamWOptions& options)
      : AdamFamily(std::move(groups), options, AdamDecay::kDecoupledFromPeak) {}
  std::string name() const override { return "DecoupledAdamW"; }
};

}  // namespace composer
