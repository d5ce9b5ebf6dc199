// The part that Adam, AdamW, DecoupledAdamW and Muon's AdamW share: the moments and update of one parameter group.
//
// For each parameter p with a gradient g, t = the number of its updates (including this one), and lr0 = initial_lr:
//   kL2                  g <- g + weight_decay p
//   kDecoupled           p <- p (1 - lr weight_decay)
//   kDecoupledFromPeak   p <- p (1 - lr/lr0 weight_decay)                (lr/lr0 := 1 when lr0 = 0)
//   m <- beta1 m + (1 - beta1) g                                         exp_avg
//   v <- beta2 v + (1 - beta2) g^2                                       exp_avg_sq
//   u  = amsgrad ? (vmax <- max(vmax, v)) : v                            max_exp_avg_sq
//   p <- p - lr / (1 - beta1^t) m / (sqrt(u) / sqrt(1 - beta2^t) + eps)
//
// The update is one at::_fused_adam(w)_ call. The kernel computes the decay as p * (1 - lr * constant) and m by
// interpolation, so results agree with a loop over tensors up to rounding (about 1e-6 relative after 20 float32 steps),
// not bit for bit. The last few elements of a thread's share are rounded differently, so equal bits need an equal
// number of threads. Where a run has registered a kernel of our own for AdamW (`kernels: auto` on a GPU), that is
// called, which rounds otherwise, too. With bf16_state it is adam_bf16.h's, whose moments are bfloat16, for float32
// parameters on a CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/active_params.h"

namespace composer {

// torch's arguments and defaults.
struct AdamOptions {
  double beta1 = 0.9;    // [0, 1)
  double beta2 = 0.999;  // [0, 1)
  double eps = 1e-8;     // >= 0
  bool amsgrad = false;
  bool bf16_state = false;  // not with amsgrad
  // The update is made during backward: each parameter is updated as soon as its gradient is complete, while both are
  // in the processor's cache, and the gradient is freed at once. Gradients so take the memory of the largest layer in
  // place of that of the model. The weights are those of an update after backward, bit for bit. What must know all
  // gradients before one is used does not go with it (loop/check_in_backward.h).
  bool in_backward = false;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const AdamOptions& options);

enum class AdamDecay { kL2, kDecoupled, kDecoupledFromPeak };

class AdamGroup {
 public:
  // Sets group.momentum to beta1, which Step reads there. Throws c10::Error like ActiveParams, and c10::ValueError with
  // bf16_state and parameters that it cannot update.
  AdamGroup(ParamGroup& group, const AdamOptions& options, AdamDecay decay);

  // Performs one update. group is the one given to the constructor, in its current state. found_inf is as in
  // Optimizer::StepUnless, or undefined.
  void Step(const ParamGroup& group, const at::Tensor& found_inf);

  // From here on the update takes the learning rate that the last WriteRate wrote (device_rates.h).
  void UseDeviceRate();
  void WriteRate(const ParamGroup& group);

  // Performs the update of one parameter of the group, which has a gradient.
  void StepOne(const ParamGroup& group, size_t parameter);

  // Adds "group<index>/step" [parameters of the group], each parameter's own t; "<parameter>/exp_avg",
  // "<parameter>/exp_avg_sq" and, with amsgrad, "<parameter>/max_exp_avg_sq", of the parameter's shape and dtype, or
  // bfloat16.
  void AppendState(size_t index, const ParamGroup& group, NamedTensors& state) const;

 private:
  // What an update is about: parameters with what belongs to them, in the same order.
  struct Updated {
    at::TensorList params, grads, exp_avg, exp_avg_sq, max_exp_avg_sq, steps;
    size_t first = 0;  // the number of the first one, for bits of its own
  };
  void SelectActive();
  void CountStep(const at::Tensor& found_inf);
  // Returns the decay as _fused_adam(w)_ takes it.
  double Decay(const ParamGroup& group) const;
  void Update(const ParamGroup& group, const Updated& updated, const at::Tensor& found_inf);
  // Returns false, and does nothing, if there is no kernel of ours for these.
  bool UpdateByOwnKernel(const ParamGroup& group, const Updated& updated, const at::Tensor& found_inf);
  void UpdateBf16(const ParamGroup& group, const Updated& updated);

  AdamOptions options_;
  AdamDecay decay_;
  const bool has_own_kernel_;  // for the parameters' device, when this was made: looking it up in each step costs
  ActiveParams active_;
  StateTensors exp_avg_, exp_avg_sq_, max_exp_avg_sq_;
  at::Tensor steps_;                            // [n] float, on the parameters' device, as the fused kernels require
  at::Tensor increment_;                        // [n], 1 for the active ones
  at::Tensor rate_;                             // scalar float beside the parameters; undefined: group.lr counts
  std::vector<at::Tensor> step_, active_step_;  // elements of steps_
};

}  // namespace composer
