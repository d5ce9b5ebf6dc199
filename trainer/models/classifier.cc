// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/classifier.h"

#include <c10/util/Exception.h>

#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

Loss Classifier::loss(const Outputs& outputs, const Batch& batch) {
  try {
    return SoftCrossEntropy(outputs, batch.targets);
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
  return SoftCrossEntropyBySample(outputs, batch.targets);
}

MetricList Classifier::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeMulticlassAccuracy());
  if (!is_train) metrics.push_back(MakeCrossEntropy());
  return metrics;
}

}  // namespace composer
