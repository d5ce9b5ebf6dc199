// Selects the parameters of a group that take part in a step, namely those that have a gradient, and provides the lists
// for the fused and foreach kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "trainer/core/optimizer.h"

namespace composer {

// The fused CPU kernels walk raw memory, so every gradient handed out has the dtype and strides of its parameter
// (others are copied). Gradients are held only between Refresh and Release, so that autograd may reuse them.
class ActiveParams {
 public:
  // Throws c10::Error unless the parameters share dtype and device, are floating point, and are dense in memory. Their
  // list is read here and must not change afterwards; their storage may.
  explicit ActiveParams(const ParamGroup& group);

  // Reads this step's gradients. Returns true when the set of parameters that have one differs from the last call's.
  bool Refresh();
  void Release() { grads_.clear(); }

  bool empty() const { return params_.empty(); }
  // Returns, by position in the group, 1 for a parameter that has a gradient.
  const std::vector<char>& mask() const { return mask_; }
  at::TensorList params() const { return params_; }
  at::TensorList grads() const { return grads_; }
  // Multiplies the active parameters. found_inf is as in Optimizer::StepUnless, or undefined.
  void Scale(double factor, const at::Tensor& found_inf = {}) const;
  // Maps `all`, one tensor for each parameter of the group, to the tensors of the active parameters.
  std::vector<at::Tensor> Select(const std::vector<at::Tensor>& all) const;

 private:
  std::vector<at::Tensor> all_;
  std::vector<char> mask_;
  std::vector<at::Tensor> params_;
  std::vector<at::Tensor> grads_;
};

// Returns the gradient, copied if it does not have the parameter's dtype and strides.
at::Tensor LaidOutLike(const at::Tensor& param, const at::Tensor& grad);

// One kind of state: a tensor for each parameter of a group, of its shape and strides, initially zeros. It has the
// parameter's dtype or the given one.
struct StateTensors {
  StateTensors() = default;  // none
  explicit StateTensors(const ParamGroup& group, std::optional<at::ScalarType> dtype = std::nullopt);
  void Select(const ActiveParams& params) {
    if (!all.empty()) active = params.Select(all);
  }
  // Adds ("<name of the parameter>/<kind>", its tensor), or nothing when there are no tensors.
  void AppendOne(const ParamGroup& group, size_t parameter, const char* kind, NamedTensors& state) const;

  std::vector<at::Tensor> all;     // empty, or one per parameter
  std::vector<at::Tensor> active;  // those of the parameters with a gradient
};

}  // namespace composer
