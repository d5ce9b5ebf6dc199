// Which parameters of a group take part in a step: those that have a gradient. Gives the fused and foreach kernels their
// lists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/core/optimizer.h"

namespace composer {

// The fused CPU kernels walk raw memory, so every gradient handed out has the dtype and strides of its parameter (one
// that has not is copied). Gradients are held only between Refresh and Release, so that autograd may reuse them.
class ActiveParams {
 public:
  // Throws c10::Error unless the parameters share dtype and device, are floating point, and are dense in memory.
  // Their list is read here and must not change afterwards; their storage may.
  explicit ActiveParams(const ParamGroup& group);

  // Reads this step's gradients. True when the set of parameters that have one is not that of the last call.
  bool Refresh();
  void Release() { grads_.clear(); }

  bool empty() const { return params_.empty(); }
  // By position in the group: 1 when it has a gradient.
  const std::vector<char>& mask() const { return mask_; }
  at::TensorList params() const { return params_; }
  at::TensorList grads() const { return grads_; }
  // Multiplies the active parameters. found_inf: as in Optimizer::StepUnless, or undefined.
  void Scale(double factor, const at::Tensor& found_inf = {}) const;
  // all: one tensor for each parameter of the group -> those of the active ones.
  std::vector<at::Tensor> Select(const std::vector<at::Tensor>& all) const;

 private:
  std::vector<at::Tensor> all_;
  std::vector<char> mask_;
  std::vector<at::Tensor> params_;
  std::vector<at::Tensor> grads_;
};

// State of one kind: a tensor for each parameter of a group, of its shape, strides and dtype, zeros at first.
struct StateTensors {
  StateTensors() = default;  // none
  explicit StateTensors(const ParamGroup& group);
  void Select(const ActiveParams& params) {
    if (!all.empty()) active = params.Select(all);
  }
  // Adds ("<name of the parameter>/<kind>", its tensor); nothing when there are none.
  void AppendOne(const ParamGroup& group, size_t parameter, const char* kind, NamedTensors& state) const;

  std::vector<at::Tensor> all;     // empty, or one for each parameter
  std::vector<at::Tensor> active;  // those of the parameters with a gradient
};

}  // namespace composer
