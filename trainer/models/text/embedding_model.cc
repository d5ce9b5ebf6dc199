// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/embedding_model.h"

#include <torch/types.h>

#include <algorithm>
#include <string>
#include <utility>

#include "trainer/layers/no_autocast.h"
#include "trainer/metrics/recall_at_k.h"
#include "trainer/models/text/decoder_model.h"
#include "trainer/models/text/text_head_model.h"

namespace composer {
namespace {

const at::Tensor* Find(const Batch& batch, const std::string& key) {
  if (key == "inputs") return &batch.inputs;
  const auto found = batch.extra.find(key);
  return found == batch.extra.end() ? nullptr : &found->second;
}

at::Tensor MaskOf(const Batch& batch, const TextKey& key, const at::Tensor& tokens) {
  const at::Tensor* given = Find(batch, key.mask);
  if (given == nullptr) return at::ones_like(tokens);
  TORCH_CHECK_VALUE(given->sizes() == tokens.sizes(), "model: ", key.mask, " must have the shape of ", key.tokens, ", ",
                    tokens.sizes(), ", got ", given->sizes());
  return given->to(at::kLong);
}

// Joins the texts under all keys, padded to the longest, to one batch of [n * B, T].
Batch JoinTexts(const Batch& batch, const std::vector<TextKey>& keys) {
  int64_t longest = 0;
  for (const TextKey& key : keys) {
    const at::Tensor& tokens = *Find(batch, key.tokens);
    TORCH_CHECK_VALUE(tokens.dim() == 2 && tokens.size(0) == batch.inputs.size(0), "model: expected `", key.tokens,
                      "` [B, T] with B = ", batch.inputs.size(0), ", got ", tokens.sizes());
    longest = std::max(longest, tokens.size(1));
  }
  std::vector<at::Tensor> tokens, masks;
  for (const TextKey& key : keys) {
    const at::Tensor& own = *Find(batch, key.tokens);
    const int64_t padding = longest - own.size(1);
    tokens.push_back(at::constant_pad_nd(own, {0, padding}));
    masks.push_back(at::constant_pad_nd(MaskOf(batch, key, own), {0, padding}));
  }
  Batch joined;
  joined.inputs = at::cat(tokens);
  joined.extra["attention_mask"] = at::cat(masks);
  joined.num_samples = joined.inputs.size(0);
  return joined;
}

at::Tensor Pool(const at::Tensor& hidden, const at::Tensor& mask, Pooling pooling) {
  switch (pooling) {
    case Pooling::kCls:
      return hidden.select(1, 0);
    case Pooling::kLast: {
      const at::Tensor places = at::arange(mask.size(1), mask.options());
      const at::Tensor last = (mask.ne(0) * places).amax(1);
      return hidden.gather(1, last.view({-1, 1, 1}).expand({-1, 1, hidden.size(2)})).squeeze(1);
    }
    case Pooling::kMean:
      break;
  }
  const at::Tensor weights = mask.ne(0).to(hidden.scalar_type()).unsqueeze(-1);
  return (hidden * weights).sum(1) / weights.sum(1).clamp_min(1);
}

}  // namespace

EmbeddingModel::EmbeddingModel(std::shared_ptr<Model> body, HiddenStates hidden, const EmbeddingOptions& options)
    : body_(std::move(body)), hidden_(std::move(hidden)), options_(options) {
  TORCH_CHECK_VALUE(options.temperature > 0, "model.temperature: must be more than 0, got ", options.temperature);
  for (const auto& child : body_->named_children()) {
    if (child.key() != "lm_head") register_module(child.key(), child.value());
  }
}

at::Tensor EmbeddingModel::Embed(const Batch& texts) {
  const at::Tensor hidden = hidden_(texts);
  const NoAutocastScope scope(hidden.device().type());
  const auto mask = texts.extra.find("attention_mask");
  const at::Tensor pooled = Pool(
      hidden.to(at::kFloat), mask != texts.extra.end() ? mask->second : at::ones_like(texts.inputs), options_.pooling);
  return options_.normalize ? pooled / pooled.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12) : pooled;
}

Outputs EmbeddingModel::forward(const Batch& batch) {
  std::vector<TextKey> keys;
  for (const TextKey& key : kTextKeys) {
    if (Find(batch, key.tokens) != nullptr) keys.push_back(key);
  }
  if (keys.size() == 1) return Embed(batch);
  TORCH_CHECK_VALUE(batch.extra.count("token_type_ids") == 0,
                    "model: token_type_ids of pairs of texts are not supported: each text is a sequence of its own");
  const std::vector<at::Tensor> parts = Embed(JoinTexts(batch, keys)).chunk(static_cast<int64_t>(keys.size()));
  Outputs::Named named;
  for (size_t i = 0; i < keys.size(); ++i) named.emplace_back(i == 0 ? "outputs" : keys[i].tokens, parts[i]);
  return Outputs(std::move(named));
}

Loss EmbeddingModel::loss(const Outputs& outputs, const Batch& /*batch*/) {
  TORCH_CHECK_VALUE(outputs.Has("positives"),
                    "model.task: embedding is trained on pairs of texts: the batch has no `positives`");
  const at::Tensor& texts = outputs["outputs"];
  const NoAutocastScope scope(texts.device().type());
  at::Tensor others = outputs["positives"];
  if (outputs.Has("negatives")) others = at::cat({others, outputs["negatives"]});
  int64_t first = 0;
  if (is_training() && data_ranks != nullptr) {
    if (needs_ranks()) {
      first = data_ranks->rank() * others.size(0);
      others = GatherRows(others, *data_ranks);
    }
    TORCH_CHECK_VALUE(others.size(0) > 1, "model.task: embedding has nothing to tell a text's positive from: a ",
                      "microbatch needs two samples, or negatives");
  }
  const at::Tensor scores = texts.matmul(others.t()) / options_.temperature;
  const at::Tensor own = at::arange(first, first + texts.size(0), scores.options().dtype(at::kLong));
  return at::cross_entropy_loss(scores, own);
}

MetricList EmbeddingModel::metrics(bool is_train) const {
  MetricList metrics;
  if (is_train) return metrics;
  if (options_.eval_metrics) {
    for (const auto& make : *options_.eval_metrics) metrics.push_back(make());
    return metrics;
  }
  for (const int64_t k : {1, 10}) metrics.push_back(MakeRecallAtK(k));
  return metrics;
}

int64_t EmbeddingModel::vocabulary() const { return dynamic_cast<const HuggingFaceModel&>(*body_).vocabulary(); }

std::shared_ptr<EmbeddingModel> MakeEmbeddingModel(const std::shared_ptr<Model>& body,
                                                   const EmbeddingOptions& options) {
  if (const auto decoder = std::dynamic_pointer_cast<DecoderModel>(body)) {
    return std::make_shared<EmbeddingModel>(
        body, [decoder = decoder.get()](const Batch& batch) { return decoder->Hidden(batch); }, options);
  }
  TORCH_CHECK_VALUE(std::dynamic_pointer_cast<TextHeadModel>(body) != nullptr,
                    "model.task: embedding is for bert, roberta and decoders");
  return std::make_shared<EmbeddingModel>(
      body, [body = body.get()](const Batch& batch) { return body->forward(batch).tensor(); }, options);
}

}  // namespace composer
