// The common part of language models: the next-token loss, its metrics, the number of operations, and generation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/core/model.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/chunked_loss.h"

namespace composer {

// forward maps inputs int64 [B, T] to logits [B, T, vocab]; the logits of a token depend on no later token. The loss is
// NextTokenCrossEntropy; the metrics are LanguageCrossEntropy and, in evaluation, LanguagePerplexity.
//
// With SetLossChunk, forward in training and eval_forward return, for batches with targets, the loss of each token,
// float32 [B, T], in place of the logits.
class LanguageModel : public Model, public CausalDecoder {
 public:
  Loss loss(const Outputs& outputs, const Batch& batch) final;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }
  Outputs eval_forward(const Batch& batch) override;

  // From now on the head and the loss run over `tokens` tokens at a time (chunked_loss.h); 0: over all. Algorithms that
  // make dense targets, or need logits, then fail with a c10::ValueError. For models that implement Head.
  void SetLossChunk(int64_t tokens);
  int64_t loss_chunk() const { return chunks_ == nullptr ? 0 : chunks_->chunk(); }

  int64_t context() const override { return context_; }
  int64_t vocab() const final { return vocab_; }
  // Runs forward over all tokens. This is for models without a cache, which must not be given one.
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override;

 protected:
  // The length of forward's inputs must be a multiple of tokens_multiple.
  LanguageModel(int64_t context, int64_t vocab, int64_t tokens_multiple = 1)
      : context_(context / tokens_multiple * tokens_multiple), vocab_(vocab), tokens_multiple_(tokens_multiple) {}
  // Returns how outputs that are not whole logits give the loss of each token; it is differentiable and usable while
  // the model lives. Empty means that the logits are whole.
  virtual TokenLosses token_losses() const;
  // Maps the last hidden states [.., width] to logits [.., vocab]. The default throws c10::NotImplementedError.
  virtual at::Tensor Head(const at::Tensor& x);
  // Returns the loss of each of n tokens from Head's logits [n, vocab], 0 where the target is kIgnoreIndex.
  virtual at::Tensor LossOfLogits(const at::Tensor& logits, const at::Tensor& targets);
  // Whether forward returns losses for this batch.
  bool gives_losses(const Batch& batch) const;
  // What forward returns for the last hidden states [B, T, width]: Head's logits, or the losses.
  Outputs LogitsOrLosses(const at::Tensor& x, const Batch& batch);

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes

 private:
  int64_t context_, vocab_, tokens_multiple_;
  std::unique_ptr<ChunkedLoss> chunks_;                               // null: whole logits
  std::shared_ptr<KnownLoss> known_ = std::make_shared<KnownLoss>();  // of the last training batch, for its metric
  bool evaluates_ = false;                                            // inside of eval_forward
};

}  // namespace composer
