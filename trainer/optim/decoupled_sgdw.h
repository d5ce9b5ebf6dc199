// Composer's DecoupledSGDW: SGD whose weight decay does not enter the gradient and follows the schedule of the learning
// rate but not its peak (sgd.h, kDecoupledFromPeak).
//
// Source: mosaicml composer/optim/decoupled_weight_decay.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trainer/optim/sgd.h"

namespace composer {

using SgdwOptions = SgdOptions;

class DecoupledSgdwOptimizer final : public SgdFamily {
 public:
  DecoupledSgdwOptimizer(std::vector<ParamGroup> groups, const SgdwOptions& options)
      : SgdFamily(std::move(groups), options, SgdDecay::kDecoupledFromPeak) {}
  std::string name() const override { return "DecoupledSGDW"; }
};

}  // namespace composer
