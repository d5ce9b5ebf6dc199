// The part of BERT and RoBERTa that all tasks share (bert.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/batch.h"
#include "trainer/layers/layer_list.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/text/bert.h"

namespace composer {

class BertEmbeddings final : public torch::nn::Module {
 public:
  explicit BertEmbeddings(const BertOptions& options);
  // [B, T] to [B, T, width].
  at::Tensor forward(const Batch& batch);
  const at::Tensor& words() const { return word_embeddings_->weight; }

 private:
  at::Tensor Positions(const at::Tensor& tokens);

  BertOptions options_;
  Slot<EmbeddingLayer> word_embeddings_, position_embeddings_, token_type_embeddings_;
  Slot<Layer> norm_, dropout_;
};

// BertModel: embeddings, encoder.layer.0 …, pooler if there is one.
class BertEncoder final : public torch::nn::Module {
 public:
  BertEncoder(const BertOptions& options, bool has_pooler);
  // [B, T] to [B, T, width].
  at::Tensor forward(const Batch& batch);
  // tanh(dense(the first token)), [B, width]. Requires a pooler.
  at::Tensor Pool(const at::Tensor& hidden);
  const at::Tensor& words() const { return embeddings_->words(); }

 private:
  std::shared_ptr<BertEmbeddings> embeddings_;
  std::shared_ptr<LayerList> layers_;
  Slot<Layer> pooler_;
};

}  // namespace composer
