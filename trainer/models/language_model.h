// What language models share: the loss of the next token, its metrics, and a count of operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/metrics/cross_entropy.h"
#include "trainer/models/model.h"

namespace composer {

// forward: inputs int64 [B, T] -> logits [B, T, vocab]. Loss: NextTokenCrossEntropy. Metrics: LanguageCrossEntropy; in
// evaluation LanguagePerplexity too.
class LanguageModel : public Model {
 public:
  Loss loss(const at::Tensor& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_; }

 protected:
  // How outputs that are not whole logits give the loss of each token; differentiable, usable while the model lives.
  // Empty: they are whole.
  virtual TokenLosses token_losses() const { return {}; }

  double flops_per_sample_ = 0;  // forward and backward; derived classes set it
};

}  // namespace composer
