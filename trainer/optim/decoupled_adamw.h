// DecoupledAdamW: Adam whose weight decay follows the schedule of the learning rate but not its peak.
//
// For each parameter p with a gradient g, t = number of its updates (this one included), lr0 = initial_lr:
//   p <- p * (1 - lr/lr0 * weight_decay)                              (lr/lr0 := 1 when lr0 = 0)
//   m <- beta1 m + (1 - beta1) g                                      exp_avg
//   v <- beta2 v + (1 - beta2) g^2                                    exp_avg_sq
//   u  = amsgrad ? (vmax <- max(vmax, v)) : v                         max_exp_avg_sq
//   p <- p - lr / (1 - beta1^t) * m / (sqrt(u) / sqrt(1 - beta2^t) + eps)
//
// One at::_fused_adamw_ call a group. It computes p * (1 - lr * (weight_decay/lr0)) and m by interpolation, so results
// agree with Composer's loop to rounding (about 1e-6 relative after 20 float32 steps), not bit by bit; and the last few
// elements of a thread's share are rounded differently, so equal bits need an equal number of threads.
//
// Source: mosaicml composer/optim/decoupled_weight_decay.py; Loshchilov & Hutter 2019, arXiv:1711.05101.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/optim/active_params.h"
#include "trainer/optim/optimizer.h"

namespace composer {

struct AdamWOptions {
  double beta1 = 0.9;   // [0, 1)
  double beta2 = 0.95;  // [0, 1)
  double eps = 1e-8;    // >= 0
  bool amsgrad = false;
};

// kInvalidArgument naming the field, its value and its range.
absl::Status Validate(const AdamWOptions& options);

class DecoupledAdamW final : public Optimizer {
 public:
  // Throws c10::Error when the options are not valid or a group is not of one dtype and device (ActiveParams).
  DecoupledAdamW(std::vector<ParamGroup> groups, const AdamWOptions& options);
  std::string name() const override { return "DecoupledAdamW"; }
  void Step() override;
  // "group<i>/step" [parameters of group i], each parameter's own t; "<parameter>/exp_avg", "<parameter>/exp_avg_sq"
  // and, with amsgrad, "<parameter>/max_exp_avg_sq", of the parameter's shape.
  NamedTensors state() override;

 private:
  // Lists over all parameters of the group, and over those with a gradient.
  struct Moments {
    std::vector<at::Tensor> exp_avg, exp_avg_sq, max_exp_avg_sq, step;
  };
  struct GroupState {
    explicit GroupState(const ParamGroup& group, bool amsgrad);
    ActiveParams active;
    Moments all, selected;
    at::Tensor steps;      // [n]; all.step are its elements
    at::Tensor increment;  // [n] 1 for the active ones
  };
  void StepGroup(const ParamGroup& group, GroupState& state);

  AdamWOptions options_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

}  // namespace composer
