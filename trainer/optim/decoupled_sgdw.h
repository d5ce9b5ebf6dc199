// DecoupledSGDW: SGD whose weight decay follows the schedule of the learning rate but not its peak.
//
// For each parameter p with a gradient g, lr0 = initial_lr:
//   b <- g on its first update, else momentum b + (1 - dampening) g   momentum_buffer; none when momentum = 0 (b = g)
//   d  = nesterov ? g + momentum b : b
//   p <- p * (1 - lr/lr0 * weight_decay)                              (lr/lr0 := 1 when lr0 = 0)
//   p <- p - lr d
// The decay does not enter the gradient. One at::_foreach_mul_ and one at::_fused_sgd_ call a group; agrees with
// Composer's loop to rounding.
//
// Source: mosaicml composer/optim/decoupled_weight_decay.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/optim/active_params.h"
#include "trainer/optim/optimizer.h"

namespace composer {

struct SgdwOptions {
  double momentum = 0;    // >= 0
  double dampening = 0;   // 0 with nesterov
  bool nesterov = false;  // needs momentum > 0
};

// kInvalidArgument naming the field, its value and its range.
absl::Status Validate(const SgdwOptions& options);

class DecoupledSGDW final : public Optimizer {
 public:
  // Throws c10::Error when the options are not valid or a group is not of one dtype and device (ActiveParams).
  DecoupledSGDW(std::vector<ParamGroup> groups, const SgdwOptions& options);
  std::string name() const override { return "DecoupledSGDW"; }
  void Step() override;
  // With momentum: "group<i>/started" [parameters of group i], CPU, 1 once a parameter had its first update; and
  // "<parameter>/momentum_buffer". Without: nothing.
  NamedTensors state() override;

 private:
  struct GroupState {
    explicit GroupState(const ParamGroup& group, bool has_momentum);
    ActiveParams active;
    std::vector<at::Tensor> all_buffers, buffers;  // of all parameters, of those with a gradient
    at::Tensor started;                            // on the CPU: it is read every step
  };
  void StepGroup(const ParamGroup& group, GroupState& state);
  void StepWithMomentum(double lr, GroupState& state);
  void Fused(at::TensorList params, at::TensorList grads, at::TensorList buffers, double lr, bool first);

  SgdwOptions options_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

}  // namespace composer
