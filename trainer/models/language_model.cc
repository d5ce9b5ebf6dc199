// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/language_model.h"

#include <ATen/ATen.h>

#include "trainer/loss/cross_entropy.h"

namespace composer {

Loss LanguageModel::loss(const at::Tensor& outputs, const Batch& batch) {
  const TokenLosses losses = token_losses();
  if (!losses) return NextTokenCrossEntropy(outputs, batch.targets);
  return losses(outputs, batch.targets).sum() / batch.targets.ne(kIgnoreIndex).sum();
}

at::Tensor LanguageModel::sample_losses(const at::Tensor& outputs, const Batch& batch) {
  const TokenLosses losses = token_losses();
  if (!losses) return SoftCrossEntropyBySample(outputs.transpose(1, 2), batch.targets);
  return losses(outputs, batch.targets).sum(1) / batch.targets.ne(kIgnoreIndex).sum(1).clamp_min(1);
}

MetricList LanguageModel::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeLanguageCrossEntropy(kIgnoreIndex, token_losses()));
  if (!is_train) metrics.push_back(MakeLanguagePerplexity(kIgnoreIndex, token_losses()));
  return metrics;
}

at::Tensor LanguageModel::NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) {
  TORCH_CHECK(cache == nullptr, "this model has no cache");
  Batch batch;
  const int64_t missing = (tokens_multiple_ - tokens.size(1) % tokens_multiple_) % tokens_multiple_;
  batch.inputs = missing == 0 ? tokens : at::constant_pad_nd(tokens, {0, missing}, 0);
  batch.num_samples = tokens.size(0);
  return LastOfEachRow(forward(batch), lengths);
}

}  // namespace composer
