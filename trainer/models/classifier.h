// The common part of all classifiers: Composer's ComposerClassifier (composer/models/tasks/classification.py).
// By default the loss is SoftCrossEntropy, and the metrics are MulticlassAccuracy and, in evaluation, CrossEntropy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/loss/classifier_loss.h"

namespace composer {

// ComposerClassifier's arguments. What is not given is the default above.
struct ClassifierTask {
  using MakeMetrics = std::vector<std::function<std::unique_ptr<Metric>()>>;

  std::optional<ClassifierLoss> loss;
  std::optional<MakeMetrics> train_metrics;
  std::optional<MakeMetrics> eval_metrics;
};

class Classifier : public Model {
 public:
  Outputs forward(const Batch& batch) final { return Logits(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) final;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

  // To be called before training.
  void SetTask(ClassifierTask task) { task_ = std::move(task); }

 protected:
  // Maps inputs [B, *] to logits [B, classes].
  virtual at::Tensor Logits(const at::Tensor& inputs) = 0;

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes

 private:
  ClassifierTask task_;
};

}  // namespace composer
