// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/clip_text.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/block.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/layer_list.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

constexpr int64_t kLegacyEos = 2;
constexpr double kQuickGeluFactor = 1.702;

class QuickGelu final : public torch::nn::Module, public Layer {
 public:
  at::Tensor forward(const at::Tensor& x) override { return x * at::sigmoid(kQuickGeluFactor * x); }
};

struct ClipAttention final : torch::nn::Module {
  explicit ClipAttention(const ClipTextOptions& o)
      : head_width(o.hidden_size / o.num_attention_heads),
        q_proj(*this, "q_proj", MakeHeadsLinear(o.hidden_size, o.num_attention_heads, head_width, /*bias=*/true)),
        k_proj(*this, "k_proj", MakeHeadsLinear(o.hidden_size, o.num_attention_heads, head_width, /*bias=*/true)),
        v_proj(*this, "v_proj", MakeHeadsLinear(o.hidden_size, o.num_attention_heads, head_width, /*bias=*/true)),
        out_proj(*this, "out_proj", MakeLinear(o.hidden_size, o.hidden_size)),
        core(*this, "core", std::make_shared<DotProductAttention>(o.attention_dropout)) {}
  int64_t head_width;
  Slot<Layer> q_proj, k_proj, v_proj, out_proj;
  Slot<AttentionCore> core;
};

struct ClipMlp final : torch::nn::Module {
  explicit ClipMlp(const ClipTextOptions& o)
      : fc1(*this, "fc1", MakeLinear(o.hidden_size, o.intermediate_size)),
        fc2(*this, "fc2", MakeLinear(o.intermediate_size, o.hidden_size)) {
    std::shared_ptr<torch::nn::Module> activation = std::make_shared<QuickGelu>();
    if (o.hidden_act != "quick_gelu") activation = MakeActivation("hidden_act", o.hidden_act);
    act = Slot<Layer>(*this, "activation_fn", std::move(activation));
  }
  Slot<Layer> fc1, fc2, act;
};

// inputs[1], if defined, is the mask, [B, 1, T, T].
class ClipBlock final : public Block {
 public:
  explicit ClipBlock(const ClipTextOptions& options)
      : attention_(register_module("self_attn", std::make_shared<ClipAttention>(options))),
        mlp_(register_module("mlp", std::make_shared<ClipMlp>(options))),
        norm1_(*this, "layer_norm1", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)),
        norm2_(*this, "layer_norm2", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor normed = norm1_->forward(inputs[0]);
    const at::Tensor x = inputs[0] + Attend(normed, inputs.at(1));
    return x + mlp_->fc2->forward(mlp_->act->forward(mlp_->fc1->forward(norm2_->forward(x))));
  }

 private:
  at::Tensor Attend(const at::Tensor& x, const at::Tensor& mask) const {
    const ClipAttention& a = *attention_;
    const at::Tensor q = SplitHeads(a.q_proj->forward(x), a.head_width);
    const at::Tensor k = SplitHeads(a.k_proj->forward(x), a.head_width);
    const at::Tensor v = SplitHeads(a.v_proj->forward(x), a.head_width);
    const std::optional<at::Tensor> seen = mask.defined() ? std::optional(mask) : std::nullopt;
    return a.out_proj->forward(JoinHeads(a.core->forward(q, k, v, seen, /*is_causal=*/!mask.defined())));
  }

  std::shared_ptr<ClipAttention> attention_;
  std::shared_ptr<ClipMlp> mlp_;
  Slot<Layer> norm1_, norm2_;
};

class ClipText final : public TextHeadModel {
 public:
  explicit ClipText(const ClipTextOptions& options) : TextHeadModel({.task = TextTask::kFeatures}), options_(options) {
    TORCH_CHECK_VALUE(options.hidden_size % options.num_attention_heads == 0, "config.json: `num_attention_heads` ",
                      options.num_attention_heads, " must divide `hidden_size` ", options.hidden_size);
    const auto text = register_module("text_model", std::make_shared<torch::nn::Module>());
    const auto embeddings = text->register_module("embeddings", std::make_shared<torch::nn::Module>());
    tokens_ =
        Slot<EmbeddingLayer>(*embeddings, "token_embedding", MakeEmbedding(options.vocab_size, options.hidden_size));
    positions_ = Slot<EmbeddingLayer>(*embeddings, "position_embedding",
                                      MakeEmbedding(options.max_position_embeddings, options.hidden_size));
    const auto encoder = text->register_module("encoder", std::make_shared<torch::nn::Module>());
    layers_ = encoder->register_module("layers", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) layers_->Add(std::make_shared<ClipBlock>(options));
    norm_ = Slot<Layer>(*text, "final_layer_norm", MakeLayerNorm(options.hidden_size, options.layer_norm_eps));
    InitialiseTextModel(*this, options.initializer_range);
    const auto width = static_cast<double>(options.hidden_size),
               length = static_cast<double>(options.max_position_embeddings);
    const double block = 4 * width * width + 2 * width * static_cast<double>(options.intermediate_size);
    flops_per_sample_ = length * static_cast<double>(options.num_hidden_layers) * (6 * block + 12 * width * length);
  }

  int64_t vocabulary() const override { return options_.vocab_size; }

  Outputs forward(const Batch& batch) override {
    const at::Tensor& ids = batch.inputs;
    TORCH_CHECK_VALUE(ids.dim() == 2 && ids.size(1) <= options_.max_position_embeddings,
                      "model: inputs must be tokens [B, T] with T up to max_position_embeddings, ",
                      options_.max_position_embeddings, ", not ", ids.sizes());
    const at::Tensor places = torch::arange(ids.size(1), ids.options());
    at::Tensor x = EmbedTokens(*tokens_, ids) + positions_->forward(places);
    const at::Tensor mask = MaskOf(batch);
    for (size_t i = 0; i < layers_->size(); ++i) x = (*layers_)[i].Run({x, mask});
    x = norm_->forward(x);
    const at::Tensor ends =
        options_.eos_token_id == kLegacyEos ? ids.argmax(-1) : ids.eq(options_.eos_token_id).to(at::kInt).argmax(-1);
    const at::Tensor rows = torch::arange(ids.size(0), ids.options());
    return Outputs(Outputs::Named{{"outputs", x}, {"pooler_output", x.index({rows, ends})}});
  }

 private:
  // Which tokens are seen, [B, 1, T, T]; undefined without padding: all before.
  static at::Tensor MaskOf(const Batch& batch) {
    const auto given = batch.extra.find("attention_mask");
    if (given == batch.extra.end()) return {};
    const at::Tensor& mask = given->second;
    TORCH_CHECK_VALUE(mask.sizes() == batch.inputs.sizes(), "model: attention_mask must have the inputs' shape ",
                      batch.inputs.sizes(), ", not ", mask.sizes());
    const int64_t length = mask.size(1);
    const at::Tensor before = torch::ones({length, length}, mask.options().dtype(at::kBool)).tril();
    return mask.to(at::kBool).view({-1, 1, 1, length}).logical_and(before);
  }

  ClipTextOptions options_;
  Slot<EmbeddingLayer> tokens_, positions_;
  std::shared_ptr<LayerList> layers_;
  Slot<Layer> norm_;
};

}  // namespace

std::shared_ptr<TextHeadModel> MakeClipText(const ClipTextOptions& options) {
  return std::make_shared<ClipText>(options);
}

}  // namespace composer
