// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/language_model.h"

#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/cross_entropy.h"

namespace composer {

Loss LanguageModel::loss(const at::Tensor& outputs, const Batch& batch) {
  return NextTokenCrossEntropy(outputs, batch.targets);
}

MetricList LanguageModel::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeLanguageCrossEntropy());
  if (!is_train) metrics.push_back(MakeLanguagePerplexity());
  return metrics;
}

}  // namespace composer
