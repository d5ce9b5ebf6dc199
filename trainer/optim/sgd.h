// torch.optim's SGD, and the part it shares with DecoupledSGDW.
//
// For each parameter p with a gradient g, lr0 = initial_lr:
//   kL2                  g <- g + weight_decay p
//   kDecoupledFromPeak   p <- p (1 - lr/lr0 weight_decay)                (lr/lr0 := 1 when lr0 = 0)
//   b <- g on its first update, else momentum b + (1 - dampening) g      momentum_buffer; none when momentum = 0 (b = g)
//   d  = nesterov ? g + momentum b : b
//   p <- p - lr d
// One at::_fused_sgd_ call a group, with kDecoupledFromPeak one at::_foreach_mul_ before it; agrees with a loop over
// tensors to rounding. Without dampening a buffer of zeros makes the first update like the others.
//
// Source: torch/optim/sgd.py (2.11). Not taken over: maximize, differentiable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/active_params.h"

namespace composer {

struct SgdOptions {
  double momentum = 0;    // >= 0
  double dampening = 0;   // 0 with nesterov
  bool nesterov = false;  // needs momentum > 0
};

// kInvalidArgument naming the field, its value and its range.
absl::Status Validate(const SgdOptions& options);

enum class SgdDecay { kL2, kDecoupledFromPeak };

// The whole family; its members differ in name and decay.
class SgdOptimizer : public Optimizer {
 public:
  // Throws c10::Error when the options are not valid or a group is not of one dtype and device (ActiveParams).
  SgdOptimizer(std::vector<ParamGroup> groups, const SgdOptions& options, SgdDecay decay);
  void Step() final { Update({}); }
  void StepUnless(const at::Tensor& found_inf) final;
  // With momentum: "<parameter>/momentum_buffer"; with dampening before them "group<i>/started" [parameters of group
  // i], on the CPU, 1 once a parameter had its first update. Without momentum: nothing.
  NamedTensors state() final;

 private:
  struct GroupState {
    GroupState(const ParamGroup& group, const SgdOptions& options);
    ActiveParams active;
    StateTensors buffers;  // with momentum
    at::Tensor started;    // with dampening; on the CPU, since it is read every step
  };
  void Update(const at::Tensor& found_inf);
  void UpdateGroup(const ParamGroup& group, GroupState& state, const at::Tensor& found_inf);
  void UpdateDampened(const ParamGroup& group, GroupState& state);
  void Fused(const ParamGroup& group, at::TensorList params, at::TensorList grads, at::TensorList buffers, bool first,
             const at::Tensor& found_inf);

  SgdOptions options_;
  SgdDecay decay_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

class SGD final : public SgdOptimizer {
 public:
  SGD(std::vector<ParamGroup> groups, const SgdOptions& options)
      : SgdOptimizer(std::move(groups), options, SgdDecay::kL2) {}
  std::string name() const override { return "SGD"; }
};

}  // namespace composer
