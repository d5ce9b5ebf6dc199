// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/language_model.h"

#include <ATen/ATen.h>

#include "absl/cleanup/cleanup.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/loss/cross_entropy.h"

namespace composer {

void LanguageModel::SetLossChunk(int64_t tokens) {
  chunks_ = nullptr;
  if (tokens <= 0) return;
  chunks_ = std::make_unique<ChunkedLoss>(
      tokens, [this](const at::Tensor& x) { return Head(x); },
      [this](const at::Tensor& logits, const at::Tensor& targets) { return LossOfLogits(logits, targets); });
}

at::Tensor LanguageModel::LossOfLogits(const at::Tensor& logits, const at::Tensor& targets) {
  if (kernels::TakesCrossEntropy(logits)) return kernels::CrossEntropyWithGradient(logits, targets, kIgnoreIndex);
  return CrossEntropyOfRows(logits, targets, kIgnoreIndex);
}

at::Tensor LanguageModel::Head(const at::Tensor& /*x*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "loss_chunk_tokens: the model ", name(),
                              " has no head of its own "
                              "(LanguageModel::Head)");
}

Outputs LanguageModel::LogitsOrLosses(const at::Tensor& x, const Batch& batch) {
  if (!gives_losses(batch)) return Head(x);
  return chunks_->Losses(x, batch.targets);
}

bool LanguageModel::gives_losses(const Batch& batch) const {
  return chunks_ != nullptr && batch.targets.defined() && (is_training() || evaluates_);
}

Outputs LanguageModel::eval_forward(const Batch& batch) {
  const auto restore = absl::MakeCleanup([this] { evaluates_ = false; });
  evaluates_ = true;
  return forward(batch);
}

// Of losses that forward has already computed. Whole logits come from a forward outside of training.
TokenLosses LanguageModel::token_losses() const {
  if (chunks_ == nullptr) return {};
  return [](const at::Tensor& outputs, const at::Tensor& targets) {
    if (outputs.dim() == 3)
      return at::cross_entropy_loss(outputs.to(at::kFloat).transpose(1, 2), targets, {}, at::Reduction::None,
                                    kIgnoreIndex);
    TORCH_CHECK_VALUE(outputs.sizes() == targets.sizes() && !targets.is_floating_point(),
                      "loss_chunk_tokens: the model returned the losses of targets ", outputs.sizes(),
                      " in place of logits, but these are ", targets.scalar_type(), targets.sizes(),
                      ": an algorithm has changed them after the forward pass; give loss_chunk_tokens: 0");
    return outputs;
  };
}

Loss LanguageModel::loss(const Outputs& outputs, const Batch& batch) {
  const TokenLosses losses = token_losses();
  if (!losses) {
    CheckNextTokenShapes(outputs, batch.targets);
    at::Tensor mean = MeanCrossEntropy(outputs->flatten(0, 1), batch.targets.flatten(), kIgnoreIndex);
    known_->Set(outputs, batch.targets, mean.detach());
    return mean;
  }
  return losses(outputs, batch.targets).sum() / batch.targets.ne(kIgnoreIndex).sum();
}

at::Tensor LanguageModel::sample_losses(const Outputs& outputs, const Batch& batch) {
  const TokenLosses losses = token_losses();
  if (!losses) return SoftCrossEntropyBySample(outputs->transpose(1, 2), batch.targets);
  return losses(outputs, batch.targets).sum(1) / batch.targets.ne(kIgnoreIndex).sum(1).clamp_min(1);
}

MetricList LanguageModel::metrics(bool is_train) const {
  MetricList metrics;
  metrics.push_back(MakeLanguageCrossEntropy(kIgnoreIndex, token_losses(), is_train ? known_ : nullptr));
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
