// BERT and RoBERTa with the heads of their tasks, as Hugging Face has them. Devlin et al. 2018, arXiv:1810.04805; Liu
// et al. 2019, arXiv:1907.11692; transformers models/bert/modeling_bert.py, models/roberta/modeling_roberta.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/models/text/text_head_model.h"

namespace composer {

// Names are BertConfig's.
struct BertOptions {
  TextLossOptions loss;
  bool roberta = false;
  int64_t num_labels = 2;  // of the two classifications
  int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12;
  int64_t intermediate_size = 3072, max_position_embeddings = 512, type_vocab_size = 2, pad_token_id = 0;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  double classifier_dropout = 0.1;
  double layer_norm_eps = 1e-12, initializer_range = 0.02;
};

// Maps inputs int64 [B, T], with optional `attention_mask` [B, T] (0: padding, which no token sees) and
// `token_type_ids` [B, T] (default: 0), to
//   kMaskedLm                 logits [B, T, vocab_size]; the head's matrix is the token embedding
//   kSequenceClassification   logits [B, num_labels], of the first token
//   kTokenClassification      logits [B, T, num_labels]
//   kFeatures                 "outputs" [B, T, hidden_size] and, of BERT, "pooler_output" [B, hidden_size]
//   kEmbedding                [B, T, hidden_size], for embedding_model.h
// RoBERTa's positions count from pad_token_id + 1 and leave out tokens that are pad_token_id. Parameters have
// BertForMaskedLM's names and so on; of kFeatures those of BertModel without a prefix, of
// kEmbedding the same without the pooler. flops_per_sample is that of a
// full context. Throws c10::ValueError for what does not fit together.
std::shared_ptr<TextHeadModel> MakeBert(const BertOptions& options);

}  // namespace composer
