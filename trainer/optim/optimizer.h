// Optimizers update the parameters of their groups in place from the parameters' gradients: one fused call a group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace composer {

// Parameters that share hyperparameters. names[i] is the model's name of params[i].
struct ParamGroup {
  std::vector<at::Tensor> params;
  std::vector<std::string> names;
  double lr = 0;          // this step's; schedulers write it
  double initial_lr = 0;  // as configured; the base that schedulers multiply
  double weight_decay = 0;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class Optimizer {
 public:
  explicit Optimizer(std::vector<ParamGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;
  // Composer's class name: "DecoupledAdamW". Part of metric names (`lr-DecoupledAdamW/group0`).
  virtual std::string name() const = 0;
  // One update with the current gradients. A parameter without a gradient is left alone. Runs under NoGradGuard.
  virtual void Step() = 0;
  // The live state, allocated at construction, so that a checkpoint can be copied into it:
  // "<parameter>/exp_avg" [shape of the parameter], "group0/step" scalar, …
  virtual NamedTensors state() = 0;

  std::vector<ParamGroup>& groups() { return groups_; }
  const std::vector<ParamGroup>& groups() const { return groups_; }

 protected:
  std::vector<ParamGroup> groups_;
};

}  // namespace composer
