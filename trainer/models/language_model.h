// What language models share: the loss of the next token, its metrics, a count of operations, and generation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/model.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/models/causal_decoder.h"

namespace composer {

// forward: inputs int64 [B, T] -> logits [B, T, vocab], of which those of a token depend on no later token. Loss:
// NextTokenCrossEntropy. Metrics: LanguageCrossEntropy; in evaluation LanguagePerplexity too.
class LanguageModel : public Model, public CausalDecoder {
 public:
  Loss loss(const at::Tensor& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

  int64_t context() const final { return context_; }
  int64_t vocab() const final { return vocab_; }
  // By forward over all tokens: for models without a cache, which must not be given one.
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override;

 protected:
  // tokens_multiple: what the length of forward's inputs must be a multiple of.
  LanguageModel(int64_t context, int64_t vocab, int64_t tokens_multiple = 1)
      : context_(context / tokens_multiple * tokens_multiple), vocab_(vocab), tokens_multiple_(tokens_multiple) {}
  // How outputs that are not whole logits give the loss of each token; differentiable, usable while the model lives.
  // Empty: they are whole.
  virtual TokenLosses token_losses() const { return {}; }

  double flops_per_sample_ = 0;  // forward and backward; derived classes set it

 private:
  int64_t context_, vocab_, tokens_multiple_;
};

}  // namespace composer
