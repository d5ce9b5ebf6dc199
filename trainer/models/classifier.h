// The part all classifiers share: Composer's ComposerClassifier (composer/models/tasks/classification.py).
// Loss: SoftCrossEntropy. Metrics: MulticlassAccuracy in training; with CrossEntropy in evaluation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/model.h"

namespace composer {

class Classifier : public Model {
 public:
  at::Tensor forward(const Batch& batch) final { return Logits(batch.inputs); }
  Loss loss(const at::Tensor& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

 protected:
  // inputs [B, *] -> [B, classes].
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;

  double flops_per_sample_ = 0;  // forward and backward; derived classes set it
};

}  // namespace composer
