// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/classifier.h"

#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

Loss Classifier::loss(const at::Tensor& outputs, const Batch& batch) {
  return SoftCrossEntropy(outputs, batch.targets);
}

MetricList Classifier::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeMulticlassAccuracy());
  if (!is_train) metrics.push_back(MakeCrossEntropy());
  return metrics;
}

}  // namespace composer
