// Model is what the trainer requires of a model: Composer's ComposerModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/metric.h"
#include "trainer/core/outputs.h"

namespace composer {

// A Loss is the loss of a model: one scalar or several, each logged as loss/train/<name>. Source: mosaicml
// composer/trainer/trainer.py, _train_microbatch(): the entries of a tuple are loss0, loss1, …; of a map the entry
// `total` is trained on, else the sum.
struct Loss {
  // A single scalar is trained on and logged as loss/train/total.
  Loss(at::Tensor scalar) : total(std::move(scalar)) {}  // NOLINT: a scalar is a loss
  // Several scalars; their sum is trained on.
  explicit Loss(const std::vector<at::Tensor>& scalars) {
    for (size_t i = 0; i < scalars.size(); ++i) parts.emplace_back("loss" + std::to_string(i), scalars[i]);
    SumParts();
  }
  // Named scalars; the one called "total" is trained on, else their sum.
  explicit Loss(std::vector<std::pair<std::string, at::Tensor>> named) : parts(std::move(named)) { SumParts(); }

  at::Tensor total;
  std::vector<std::pair<std::string, at::Tensor>> parts;  // empty for one scalar

 private:
  void SumParts() {
    for (const auto& [name, scalar] : parts) {
      if (name == "total") {
        total = scalar;
        return;
      }
    }
    for (const auto& [name, scalar] : parts) total = total.defined() ? total + scalar : scalar;
  }
};

class Logger;

class Model : public torch::nn::Module {
 public:
  // The run's logger, for a model that logs numbers of its own (Logger::Log); null outside of a run. Set by the
  // trainer.
  Logger* logger = nullptr;

  // Returns the outputs for a batch, one tensor or several with names, as the model defines; the same in training and
  // evaluation unless eval_forward differs.
  virtual Outputs forward(const Batch& batch) = 0;
  // Returns the mean over the samples (or tokens) of the batch. Must not be called with an empty batch.
  virtual Loss loss(const Outputs& outputs, const Batch& batch) = 0;
  // Returns the loss of each sample, [B], whose mean is loss() up to rounding (over tokens: up to their number by
  // sample); for algorithms that choose samples. Throws c10::NotImplementedError where a model has none.
  virtual at::Tensor sample_losses(const Outputs& /*outputs*/, const Batch& /*batch*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the model ", name(), " has no loss by sample (Model::sample_losses)");
  }
  virtual Outputs eval_forward(const Batch& batch) { return forward(batch); }
  // Returns new metric objects, for training batches or for evaluation.
  virtual MetricList metrics(bool is_train) const = 0;
  // Returns the floating point operations of forward and backward for one sample, for SpeedMonitor; 0 if unknown.
  virtual double flops_per_sample() const { return 0; }
};

}  // namespace composer
