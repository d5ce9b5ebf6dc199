// Optimizers update the parameters of their groups in place from the parameters' gradients, with one fused call per
// group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Parameters that share hyperparameters. names[i] is the model's name of params[i].
struct ParamGroup {
  std::vector<at::Tensor> params;
  std::vector<std::string> names;
  double lr = 0;          // this step's; written by schedulers
  double initial_lr = 0;  // as configured; the base that schedulers multiply
  double weight_decay = 0;
  // Momentum of SGD, RMSprop and Muon, beta1 of the others. The optimizer sets it; one_cycle_lr writes it.
  double momentum = 0;
};

// A LossClosure evaluates the loss of the step's batch at the parameters as they are now, and leaves its gradients in
// them: for optimizers that want both more than once in a step (SAM, LBFGS). Every call runs BEFORE_TRAIN_BATCH to
// AFTER_TRAIN_BATCH, with the same random numbers (dropout); the first one's loss is logged. All ranks must make the
// same calls. Source: the closures of mosaicml composer/trainer/trainer.py, _train_batch().
class LossClosure {
 public:
  // kOwn leaves out the sum over ranks where the strategy allows it (one rank, DDP; not elastic), so that ranks have
  // different gradients.
  enum class Gradients { kOverRanks, kOwn };
  virtual ~LossClosure() = default;
  // Returns the loss, of the global batch with kOverRanks; after a first evaluation with kOwn, that one's loss. Returns
  // nullopt, never with kOwn, when the gradients are not finite and there must be no update: the caller then puts the
  // parameters back as they were. It must do so as well when this throws.
  virtual std::optional<double> Evaluate(Gradients gradients) = 0;
  // Returns whether kOwn has an effect.
  virtual bool keeps_own() const = 0;
  // Returns the number of the step in the run, from 0.
  virtual int64_t batch() const = 0;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class Optimizer {
 public:
  explicit Optimizer(std::vector<ParamGroup> groups) : groups_(std::move(groups)) {}
  virtual ~Optimizer() = default;
  // Returns Composer's class name, such as "DecoupledAdamW". It is part of metric names (`lr-DecoupledAdamW/group0`).
  virtual std::string name() const = 0;
  // Makes one update with the current gradients. A parameter without a gradient is left alone. Runs under NoGradGuard.
  // Only Step changes the state, so a step is skipped by not calling it.
  virtual void Step() = 0;
  // If true, StepWith is called in place of Step, without gradients. It runs with gradients enabled.
  virtual bool needs_closure() const { return false; }
  virtual void StepWith(LossClosure& /*closure*/) { Step(); }
  // Step for loss scaling. found_inf is a float tensor of one element on the parameters' device: 0 makes a step, 1
  // changes nothing, neither parameters nor state. The Adam and SGD families decide on the device without a host wait
  // (except SGD with dampening); this default reads found_inf, which waits for the device.
  virtual void StepUnless(const at::Tensor& found_inf) {
    if (found_inf.item<float>() == 0) Step();
  }
  // Returns why sharded parameters cannot be updated ("muon needs whole matrices"), or "" if the optimizer works
  // element by element.
  virtual absl::string_view needs_whole_parameters() const { return ""; }
  // Returns the live state, allocated at construction, so that a checkpoint can be copied into it:
  // "<parameter>/exp_avg" [shape of the parameter], "group0/step" scalar, …
  virtual NamedTensors state() = 0;

  virtual std::vector<ParamGroup>& groups() { return groups_; }
  const std::vector<ParamGroup>& groups() const { return const_cast<Optimizer*>(this)->groups(); }

 protected:
  std::vector<ParamGroup> groups_;
};

class Model;
// Makes the optimizer of a model's final parameters.
using OptimizerFactory = std::function<std::unique_ptr<Optimizer>(Model&)>;

}  // namespace composer
