// torch.optim's SGD, and the part it shares with DecoupledSGDW.
//
// For each parameter p with a gradient g, and lr0 = initial_lr:
//   kL2                  g <- g + weight_decay p
//   kDecoupledFromPeak   p <- p (1 - lr/lr0 weight_decay)                (lr/lr0 := 1 when lr0 = 0)
//   b <- g on its first update, else momentum b + (1 - dampening) g      momentum_buffer; when momentum = 0, b = g
//   d  = nesterov ? g + momentum b : b
//   p <- p - lr d
// Each group takes one at::_fused_sgd_ call, with kDecoupledFromPeak preceded by one at::_foreach_mul_. Results agree
// with a loop over tensors up to rounding. Without dampening, a buffer of zeros makes the first update the same as the
// others.
//
// Source: torch/optim/sgd.py (2.11). Not ported: maximize, differentiable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/active_params.h"
#include "trainer/optim/device_rates.h"

namespace composer {

struct SgdOptions {
  double momentum = 0;    // >= 0
  double dampening = 0;   // 0 with nesterov
  bool nesterov = false;  // needs momentum > 0
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const SgdOptions& options);

enum class SgdDecay { kL2, kDecoupledFromPeak };

// The base of the whole family. Its members differ in name and decay.
class SgdFamily : public Optimizer, public DeviceRates {
 public:
  // Throws c10::Error when the options are invalid or a group does not have one dtype and device (ActiveParams).
  SgdFamily(std::vector<ParamGroup> groups, const SgdOptions& options, SgdDecay decay);
  void Step() final { Update({}); }
  void StepUnless(const at::Tensor& found_inf) final;
  // Dampening asks on the host which parameters have started, and a decay that follows the rate is computed there.
  bool can_use_device_rates() const final;
  void UseDeviceRates() final;
  void WriteRates() final;
  // With momentum, returns "<parameter>/momentum_buffer", preceded with dampening by "group<i>/started" [parameters of
  // group i], on the CPU, which is 1 once a parameter has had its first update. Without momentum, returns nothing.
  NamedTensors state() final;
  const SgdOptions& options() const { return options_; }

 private:
  struct GroupState {
    GroupState(const ParamGroup& group, const SgdOptions& options);
    ActiveParams active;
    StateTensors buffers;  // with momentum
    at::Tensor started;    // with dampening; on the CPU, since it is read every step
    at::Tensor rate;       // scalar float beside the parameters; undefined: the group's lr counts
  };
  void Update(const at::Tensor& found_inf);
  void UpdateGroup(const ParamGroup& group, GroupState& state, const at::Tensor& found_inf);
  void UpdateDampened(const ParamGroup& group, GroupState& state);
  void Fused(const ParamGroup& group, const GroupState& state, at::TensorList params, at::TensorList grads,
             at::TensorList buffers, bool first, const at::Tensor& found_inf);

  SgdOptions options_;
  SgdDecay decay_;
  std::vector<std::unique_ptr<GroupState>> state_;
};

class SgdOptimizer final : public SgdFamily {
 public:
  SgdOptimizer(std::vector<ParamGroup> groups, const SgdOptions& options)
      : SgdFamily(std::move(groups), options, SgdDecay::kL2) {}
  std::string name() const override { return "SGD"; }
};

}  // namespace composer
