// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/language_model.h"

#include "trainer/loss/cross_entropy.h"

namespace composer {

Loss LanguageModel::loss(const at::Tensor& outputs, const Batch& batch) {
  const TokenLosses losses = token_losses();
  if (!losses) return NextTokenCrossEntropy(outputs, batch.targets);
  return losses(outputs, batch.targets).sum() / batch.targets.ne(kIgnoreIndex).sum();
}

MetricList LanguageModel::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeLanguageCrossEntropy(kIgnoreIndex, token_losses()));
  if (!is_train) metrics.push_back(MakeLanguagePerplexity(kIgnoreIndex, token_losses()));
  return metrics;
}

}  // namespace composer
