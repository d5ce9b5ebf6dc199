// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/classifier.h"

#include <c10/util/Exception.h>

#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

Loss Classifier::loss(const Outputs& outputs, const Batch& batch) {
  try {
    return task_.loss ? task_.loss->mean(outputs, batch.targets) : SoftCrossEntropy(outputs, batch.targets);
  } catch (const c10::IndexError& error) {
    const auto classes = outputs->size(-1), largest = batch.targets.max().item<int64_t>();
    TORCH_CHECK_VALUE(largest < classes, "model: it has ", classes, " classes, but a label is ", largest,
                      ": labels begin at 0, so the model needs at least ", largest + 1);
    TORCH_CHECK_VALUE(false, "model: it has ", classes,
                      " classes, which the data's labels do not fit: ", error.what_without_backtrace());
    throw;
  }
}

at::Tensor Classifier::sample_losses(const Outputs& outputs, const Batch& batch) {
  if (!task_.loss) return SoftCrossEntropyBySample(outputs, batch.targets);
  TORCH_CHECK_NOT_IMPLEMENTED(
      task_.loss->by_sample != nullptr,
      "model.loss_name: this loss, or one with class_weights, label_smoothing or a sum, is none by sample");
  return task_.loss->by_sample(outputs, batch.targets);
}

MetricList Classifier::metrics(bool is_train) const {
  MetricList metrics;
  if (const auto& chosen = is_train ? task_.train_metrics : task_.eval_metrics) {
    for (const auto& make : *chosen) metrics.push_back(make());
    return metrics;
  }
  metrics.push_back(MakeMulticlassAccuracy());
  if (!is_train) metrics.push_back(MakeCrossEntropy());
  return metrics;
}

}  // namespace composer
