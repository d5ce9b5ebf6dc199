// torch.optim's RMSprop: gradients divided by the root of their running mean square.
//
// For each parameter p with a gradient g:
//   g <- g + weight_decay p
//   v <- alpha v + (1 - alpha) g^2                                       square_avg
//   a <- alpha a + (1 - alpha) g                                         grad_avg; centered only
//   d  = sqrt(v - a^2) + eps                                             (a = 0 unless centered)
//   momentum > 0:  b <- momentum b + g / d,  p <- p - lr b               momentum_buffer
//   else           p <- p - lr g / d
// There is no fused kernel: each line takes one at::_foreach_* call per group.
//
// Source: torch/optim/rmsprop.py (2.11); Graves 2013, arXiv:1308.0850 (centered). Not ported: maximize, capturable,
// differentiable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/active_params.h"

namespace composer {

struct RmspropOptions {
  double alpha = 0.99;  // >= 0
  double eps = 1e-8;    // >= 0
  double momentum = 0;  // >= 0
  bool centered = false;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const RmspropOptions& options);

class RmspropOptimizer final : public Optimizer {
 public:
  // Throws c10::Error when the options are invalid or a group does not have one dtype and device (ActiveParams).
  RmspropOptimizer(std::vector<ParamGroup> groups, const RmspropOptions& options);
  std::string name() const override { return "RMSprop"; }
  void Step() override;
  // Returns "<parameter>/square_avg" and, where used, "<parameter>/grad_avg" and "<parameter>/momentum_buffer".
  NamedTensors state() override;

 private:
  struct GroupState {
    GroupState(const ParamGroup& group, const RmspropOptions& options);
    ActiveParams active;
    StateTensors square_avg, grad_avg, momentum_buffer;
  };
  void StepGroup(const ParamGroup& group, GroupState& state);
  // Returns d of every active parameter, after updating the running means with `grads`.
  std::vector<at::Tensor> Denominators(at::TensorList grads, GroupState& state);

  RmspropOptions options_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

}  // namespace composer
