// The common part of all classifiers: Composer's ComposerClassifier (composer/models/tasks/classification.py).
// The loss is SoftCrossEntropy. The metrics are MulticlassAccuracy and, in evaluation, CrossEntropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/model.h"

namespace composer {

class Classifier : public Model {
 public:
  at::Tensor forward(const Batch& batch) final { return Logits(batch.inputs); }
  Loss loss(const at::Tensor& outputs, const Batch& batch) final;
  at::Tensor sample_losses(const at::Tensor& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

 protected:
  // Maps inputs [B, *] to logits [B, classes].
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes
};

}  // namespace composer
