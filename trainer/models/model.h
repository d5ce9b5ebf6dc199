// What the trainer needs of a model: Composer's ComposerModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include "trainer/data/batch.h"
#include "trainer/metrics/metric.h"

namespace composer {

class Model : public torch::nn::Module {
 public:
  // Outputs for a batch, shape as the model defines; the same in training and evaluation unless eval_forward differs.
  virtual at::Tensor forward(const Batch& batch) = 0;
  // A scalar: the mean over the samples (or tokens) of the batch. Must not be called with an empty batch.
  virtual at::Tensor loss(const at::Tensor& outputs, const Batch& batch) = 0;
  virtual at::Tensor eval_forward(const Batch& batch) { return forward(batch); }
  // New metric objects: for training batches, or for evaluation.
  virtual MetricList metrics(bool is_train) const = 0;
  // Floating point operations of forward and backward for one sample; 0: not known. For SpeedMonitor.
  virtual double flops_per_sample() const { return 0; }
};

}  // namespace composer
