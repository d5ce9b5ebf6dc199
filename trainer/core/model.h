// What the trainer needs of a model: Composer's ComposerModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/metric.h"

namespace composer {

// What a model's loss is: one scalar, or several scalars. Each is logged as loss/train/<name>.
// Source: mosaicml composer/trainer/trainer.py, _train_microbatch(): a tuple is loss0, loss1, …; of a map the entry
// `total` is trained on, else the sum.
struct Loss {
  // One scalar: trained on, logged as loss/train/total.
  Loss(at::Tensor scalar) : total(std::move(scalar)) {}  // NOLINT: a scalar is a loss
  // Several: trained on their sum.
  explicit Loss(const std::vector<at::Tensor>& scalars) {
    for (size_t i = 0; i < scalars.size(); ++i) parts.emplace_back("loss" + std::to_string(i), scalars[i]);
    SumParts();
  }
  // By name: trained on the one called "total", else on their sum.
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

class Model : public torch::nn::Module {
 public:
  // Outputs for a batch, shape as the model defines; the same in training and evaluation unless eval_forward differs.
  virtual at::Tensor forward(const Batch& batch) = 0;
  // The mean over the samples (or tokens) of the batch. Must not be called with an empty batch.
  virtual Loss loss(const at::Tensor& outputs, const Batch& batch) = 0;
  virtual at::Tensor eval_forward(const Batch& batch) { return forward(batch); }
  // New metric objects: for training batches, or for evaluation.
  virtual MetricList metrics(bool is_train) const = 0;
  // Floating point operations of forward and backward for one sample; 0: not known. For SpeedMonitor.
  virtual double flops_per_sample() const { return 0; }
};

}  // namespace composer
