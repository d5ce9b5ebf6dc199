// Texts as vectors: a body of Hugging Face's families, pooled, and trained so that texts which belong together are
// alike. Source: van den Oord et al. 2018 (InfoNCE), arXiv:1807.03748; sentence-transformers, models/Pooling.py and
// losses/MultipleNegativesRankingLoss.py; llm-foundry, llmfoundry/models/llm_embed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/models/across_ranks.h"
#include "trainer/models/hugging_face_model.h"

namespace composer {

// The mean of the hidden states of a text's tokens, the first one's, or the last one's.
enum class Pooling { kMean, kCls, kLast };

struct EmbeddingOptions {
  using MakeMetrics = std::vector<std::function<std::unique_ptr<Metric>()>>;

  Pooling pooling = Pooling::kMean;
  bool normalize = true;      // to length 1
  double temperature = 0.05;  // > 0; what products of embeddings are divided by
  bool gather_in_batch_negatives = true;
  std::optional<MakeMetrics> eval_metrics;  // RecallAt1 and RecallAt10 when not given
};

// The body's parameters are this model's, under their names. forward maps `inputs` int64 [B, T], with an optional
// `attention_mask`, to embeddings float32 [B, width]; of a batch that has `positives` [B, T2] and perhaps `negatives`
// [B, T3], with optional `positives_mask` and `negatives_mask`, to "outputs", "positives" and "negatives", [B, width]
// each. All texts go through the body together.
//
// The loss is the cross-entropy of each text's own positive among the positives and negatives of the whole batch, where
// a score is the product of the embeddings over the temperature: in training of the microbatches of all ranks, with
// gradients (across_ranks.h), otherwise, and without gather_in_batch_negatives, of this rank's. So the mean over ranks
// and its gradients are those of one process that has the ranks' microbatches as one.
class EmbeddingModel final : public Model, public HuggingFaceModel, public AcrossRanks {
 public:
  using HiddenStates = std::function<at::Tensor(const Batch& batch)>;  // [B, T] to [B, T, width]

  EmbeddingModel(std::shared_ptr<Model> body, HiddenStates hidden, const EmbeddingOptions& options);
  Outputs forward(const Batch& batch) override;
  Loss loss(const Outputs& outputs, const Batch& batch) override;
  MetricList metrics(bool is_train) const override;
  // Of two texts of the body's full length.
  double flops_per_sample() const override { return 2 * body_->flops_per_sample(); }
  int64_t vocabulary() const override;
  bool needs_ranks() const override { return options_.gather_in_batch_negatives; }

 private:
  at::Tensor Embed(const Batch& texts);

  std::shared_ptr<Model> body_;  // its children are registered, it is not
  HiddenStates hidden_;
  EmbeddingOptions options_;
};

// body is a BERT or RoBERTa of kEmbedding, or a decoder, whose head is left out. Throws c10::ValueError for another.
std::shared_ptr<EmbeddingModel> MakeEmbeddingModel(const std::shared_ptr<Model>& body, const EmbeddingOptions& options);

}  // namespace composer
