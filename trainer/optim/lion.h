// Lion: steps by the sign of an interpolated momentum, so that every weight moves by lr, with decoupled weight decay.
//
// For each parameter p with a gradient g:
//   c  = beta1 m + (1 - beta1) g
//   p <- p (1 - lr weight_decay) - lr sign(c)
//   m <- beta2 m + (1 - beta2) g                                         exp_avg
// Compared with AdamW, use a learning rate 3 to 10 times smaller and a weight decay larger by the same factor. There is
// no fused kernel: each group takes five at::_foreach_* calls.
//
// Source: Chen et al. 2023, arXiv:2302.06675, Algorithm 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/active_params.h"

namespace composer {

struct LionOptions {
  double beta1 = 0.9;   // [0, 1)
  double beta2 = 0.99;  // [0, 1)
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const LionOptions& options);

class LionOptimizer final : public Optimizer {
 public:
  // Throws c10::Error when the options are invalid or a group does not have one dtype and device (ActiveParams).
  LionOptimizer(std::vector<ParamGroup> groups, const LionOptions& options);
  std::string name() const override { return "Lion"; }
  void Step() override;
  // "<parameter>/exp_avg".
  NamedTensors state() override;

 private:
  struct GroupState {
    explicit GroupState(const ParamGroup& group) : active(group), exp_avg(group) {}
    ActiveParams active;
    StateTensors exp_avg;
  };

  LionOptions options_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

}  // namespace composer
