// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/llama.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/models/text/gated_mlp.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

// A block's inputs end with the tables of cos and sin.
class LlamaAttention final : public torch::nn::Module, public Layer {
 public:
  explicit LlamaAttention(const LlamaOptions& options)
      : head_width_(options.head_dim),
        q_proj_(*this, "q_proj", Projection(options, options.num_attention_heads)),
        k_proj_(*this, "k_proj", Projection(options, options.num_key_value_heads)),
        v_proj_(*this, "v_proj", Projection(options, options.num_key_value_heads)),
        o_proj_(*this, "o_proj",
                MakeLinear(options.num_attention_heads * head_width_, options.hidden_size, options.output_bias)),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.attention_dropout)) {
    if (!options.qk_norm) return;
    q_norm_ = Slot<Layer>(*this, "q_norm", std::make_shared<RmsNormLayer>(head_width_, options.rms_norm_eps));
    k_norm_ = Slot<Layer>(*this, "k_norm", std::make_shared<RmsNormLayer>(head_width_, options.rms_norm_eps));
  }

  at::Tensor forward(const at::Tensor& x) override { return Run({x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs.at(0);
    TORCH_CHECK(inputs.size() > 2, "attention with rotary positions needs their tables");
    ModuleCall call(*this, x);
    const at::Tensor &cos = inputs[inputs.size() - 2], &sin = inputs.back();
    at::Tensor q = SplitHeads(q_proj_->forward(x), head_width_), k = SplitHeads(k_proj_->forward(x), head_width_);
    const at::Tensor v = SplitHeads(v_proj_->forward(x), head_width_);
    if (q_norm_) q = q_norm_->forward(q);
    if (k_norm_) k = k_norm_->forward(k);
    const at::Tensor y = CausalAttention(*core_, Rotate(q, cos, sin), Rotate(k, cos, sin), v, inputs);
    return call.Output(o_proj_->forward(JoinHeads(y)));
  }

 private:
  static std::shared_ptr<LinearLayer> Projection(const LlamaOptions& options, int64_t heads) {
    return MakeHeadsLinear(options.hidden_size, heads, options.head_dim, options.qkv_bias);
  }

  int64_t head_width_;
  Slot<Layer> q_proj_, k_proj_, v_proj_, o_proj_;
  Slot<AttentionCore> core_;
  Slot<Layer> q_norm_, k_norm_;  // empty: none
};

std::shared_ptr<RmsNormLayer> LlamaNorm(const LlamaOptions& options) {
  return std::make_shared<RmsNormLayer>(options.hidden_size, options.rms_norm_eps);
}

class LlamaBlock final : public Block {
 public:
  explicit LlamaBlock(const LlamaOptions& options)
      : self_attn_(*this, "self_attn", std::make_shared<LlamaAttention>(options)) {
    if (options.num_local_experts > 0) {
      mlp_ = Slot<Layer>(*this, "block_sparse_moe", std::make_shared<SparseExperts>(options));
    } else {
      mlp_ = Slot<Layer>(*this, "mlp",
                         std::make_shared<GatedMlp>(options, GatedMlp::Names{"gate_proj", "up_proj", "down_proj"}));
    }
    input_layernorm_ = Slot<Layer>(*this, "input_layernorm", LlamaNorm(options));
    post_attention_layernorm_ = Slot<Layer>(*this, "post_attention_layernorm", LlamaNorm(options));
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    std::vector<at::Tensor> to_attention = inputs;
    to_attention[0] = NormForProducts(*input_layernorm_, inputs[0]);
    const auto [sum, y] = AddNorm(*post_attention_layernorm_, inputs[0], self_attn_->Run(to_attention));
    return sum + mlp_->forward(y);
  }

 private:
  Slot<Layer> self_attn_, mlp_, input_layernorm_, post_attention_layernorm_;
};

struct LlamaBody final : torch::nn::Module {
  explicit LlamaBody(const LlamaOptions& options)
      : embed_tokens(*this, "embed_tokens",
                     MakeEmbedding(options.vocab_size, options.hidden_size, options.pad_token_id)) {
    layers = register_module("layers", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) layers->Add(std::make_shared<LlamaBlock>(options));
    norm = Slot<Layer>(*this, "norm", LlamaNorm(options));
  }
  Slot<EmbeddingLayer> embed_tokens;
  std::shared_ptr<LayerList> layers;
  Slot<Layer> norm;
};

class Llama final : public DecoderModel {
 public:
  explicit Llama(const LlamaOptions& options)
      : DecoderModel({.layers = options.num_hidden_layers,
                      .heads = options.num_key_value_heads,
                      .head_width = options.head_dim,
                      .context = options.context,
                      .vocab = options.vocab_size,
                      .windows = options.windows}),
        rotary_(options.head_dim, options.rope),
        model_(register_module("model", std::make_shared<LlamaBody>(options))) {
    if (!options.tie_word_embeddings)
      lm_head_ = Slot<Layer>(*this, "lm_head", MakeLinear(options.hidden_size, options.vocab_size, /*bias=*/false));
    InitialiseTextModel(*this, options.initializer_range);
    CountOperations(options);
  }

 protected:
  at::Tensor Embed(const at::Tensor& tokens) override { return EmbedTokens(*model_->embed_tokens, tokens); }
  at::Tensor AddPositions(const at::Tensor& x, const at::Tensor& /*places*/) override { return x; }
  std::vector<at::Tensor> Further(const at::Tensor& x, const at::Tensor& places) override {
    return rotary_.Tables(x, places);
  }
  LayerList& blocks() override { return *model_->layers; }
  at::Tensor LastNorm(const at::Tensor& x) override { return NormForProducts(*model_->norm, x); }
  at::Tensor Head(const at::Tensor& x) override {
    return lm_head_ ? lm_head_->forward(x) : at::linear(x, model_->embed_tokens->weight);
  }

 private:
  void CountOperations(const LlamaOptions& options) {
    const auto of = [](int64_t size) { return static_cast<double>(size); };
    const double width = of(options.hidden_size), layers = of(options.num_hidden_layers);
    const double queries = of(options.num_attention_heads * options.head_dim);
    const double keys = of(options.num_key_value_heads * options.head_dim);
    const double experts = options.num_local_experts > 0 ? of(options.num_experts_per_tok) : 1;
    const double block = width * (2 * queries + 2 * keys) + experts * 3 * width * of(options.intermediate_size) +
                         width * of(options.num_local_experts);
    SetFlops(layers * block + of(options.vocab_size) * width, queries);
  }

  Rotary rotary_;
  std::shared_ptr<LlamaBody> model_;
  Slot<Layer> lm_head_;  // empty: tied
};

}  // namespace

std::shared_ptr<DecoderModel> MakeLlama(const LlamaOptions& options) {
  TORCH_CHECK_VALUE(options.num_attention_heads % options.num_key_value_heads == 0,
                    "model.num_attention_heads: ", options.num_attention_heads,
                    " must be a multiple of num_key_value_heads ", options.num_key_value_heads);
  TORCH_CHECK_VALUE(options.head_dim % 2 == 0, "model.head_dim: ", options.head_dim,
                    " must be even, since rotary positions turn pairs");
  TORCH_CHECK_VALUE(options.num_local_experts == 0 || options.num_experts_per_tok <= options.num_local_experts,
                    "model.num_experts_per_tok: ", options.num_experts_per_tok, " is more than num_local_experts ",
                    options.num_local_experts);
  return std::make_shared<Llama>(options);
}

}  // namespace composer
