// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/classifier.h"

#include <c10/util/Exception.h>

#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

Loss Classifier::loss(const at::Tensor& outputs, const Batch& batch) {
  try {
    return SoftCrossEntropy(outputs, batch.targets);
  } catch (const c10::IndexError& error) {
    TORCH_CHECK_VALUE(false, "model: it has ", outputs.size(-1),
                      " classes, which the data's labels do not fit: ", error.what_without_backtrace());
    throw;
  }
}

at::Tensor Classifier::sample_losses(const at::Tensor& outputs, const Batch& batch) {
  return SoftCrossEntropyBySample(outputs, batch.targets);
}

MetricList Classifier::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeMulticlassAccuracy());
  if (!is_train) metrics.push_back(MakeCrossEntropy());
  return metrics;
}

}  // namespace composer
