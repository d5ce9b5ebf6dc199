// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/gpt2.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>

#include "absl/strings/match.h"
#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

class Gpt2Attention final : public torch::nn::Module, public Layer {
 public:
  explicit Gpt2Attention(const Gpt2Options& options)
      : head_width_(options.n_embd / options.n_head),
        c_attn_(*this, "c_attn", QueriesKeysValues(options)),
        c_proj_(*this, "c_proj", std::make_shared<Conv1dLayer>(options.n_embd, options.n_embd)),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.attn_pdrop)),
        resid_dropout_(*this, "resid_dropout", std::make_shared<DropoutLayer>(options.resid_pdrop)) {}

  at::Tensor forward(const at::Tensor& x) override { return Run({x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    ModuleCall call(*this, inputs.at(0));
    const at::Tensor y = CausalAttention(*core_, c_attn_->forward(inputs[0]), head_width_, inputs);
    return call.Output(resid_dropout_->forward(c_proj_->forward(y)));
  }

 private:
  static std::shared_ptr<Conv1dLayer> QueriesKeysValues(const Gpt2Options& options) {
    auto linear = std::make_shared<Conv1dLayer>(options.n_embd, 3 * options.n_embd);
    linear->division = {.parts = 3, .units = options.n_head};
    return linear;
  }

  int64_t head_width_;
  Slot<Layer> c_attn_, c_proj_;
  Slot<AttentionCore> core_;
  Slot<Layer> resid_dropout_;
};

class Gpt2Mlp final : public torch::nn::Module, public Layer {
 public:
  Gpt2Mlp(const Gpt2Options& options, int64_t inner)
      : c_fc_(*this, "c_fc", std::make_shared<Conv1dLayer>(options.n_embd, inner)),
        c_proj_(*this, "c_proj", std::make_shared<Conv1dLayer>(inner, options.n_embd)),
        act_(*this, "act", MakeActivation("activation_function", options.activation_function)),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.resid_pdrop)) {}

  at::Tensor forward(const at::Tensor& x) override {
    ModuleCall call(*this, x);
    return call.Output(dropout_->forward(c_proj_->forward(act_->forward(c_fc_->forward(x)))));
  }

 private:
  Slot<Layer> c_fc_, c_proj_, act_, dropout_;
};

class Gpt2Block final : public Block {
 public:
  Gpt2Block(const Gpt2Options& options, int64_t inner)
      : ln_1_(*this, "ln_1", MakeLayerNorm(options.n_embd, options.layer_norm_epsilon)),
        attn_(*this, "attn", std::make_shared<Gpt2Attention>(options)),
        ln_2_(*this, "ln_2", MakeLayerNorm(options.n_embd, options.layer_norm_epsilon)),
        mlp_(*this, "mlp", std::make_shared<Gpt2Mlp>(options, inner)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    std::vector<at::Tensor> to_attention = inputs;
    to_attention[0] = NormForProducts(*ln_1_, inputs[0]);
    const auto [sum, y] = AddNorm(*ln_2_, inputs[0], attn_->Run(to_attention));
    return sum + mlp_->forward(y);
  }

 private:
  Slot<Layer> ln_1_, attn_, ln_2_, mlp_;
};

struct Gpt2Body final : torch::nn::Module {
  Gpt2Body(const Gpt2Options& options, int64_t inner)
      : wte(*this, "wte", std::make_shared<EmbeddingLayer>(options.vocab_size, options.n_embd)),
        wpe(*this, "wpe", std::make_shared<EmbeddingLayer>(options.n_positions, options.n_embd)),
        drop(*this, "drop", std::make_shared<DropoutLayer>(options.embd_pdrop)) {
    h = register_module("h", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.n_layer; ++i) h->Add(std::make_shared<Gpt2Block>(options, inner));
    ln_f = Slot<Layer>(*this, "ln_f", MakeLayerNorm(options.n_embd, options.layer_norm_epsilon));
  }
  Slot<EmbeddingLayer> wte, wpe;
  Slot<Layer> drop;
  std::shared_ptr<LayerList> h;
  Slot<Layer> ln_f;
};

class Gpt2 final : public DecoderModel {
 public:
  Gpt2(const Gpt2Options& options, int64_t inner)
      : DecoderModel({.layers = options.n_layer,
                      .heads = options.n_head,
                      .head_width = options.n_embd / options.n_head,
                      .context = options.n_positions,
                      .vocab = options.vocab_size}),
        transformer_(register_module("transformer", std::make_shared<Gpt2Body>(options, inner))) {
    if (!options.tie_word_embeddings)
      lm_head_ = Slot<Layer>(*this, "lm_head", MakeLinear(options.n_embd, options.vocab_size, /*bias=*/false));
    InitialiseTextModel(*this, options.initializer_range);
    ScaleBranches(options);
    const auto width = static_cast<double>(options.n_embd), layers = static_cast<double>(options.n_layer);
    const double block = 4 * width * width + 2 * width * static_cast<double>(inner);
    SetFlops(layers * block + static_cast<double>(options.vocab_size) * width, width);
  }

  // As many tokens as there are positions, also after surgery.
  int64_t context() const override { return transformer_->wpe->options.num_embeddings(); }

 protected:
  at::Tensor Embed(const at::Tensor& tokens) override { return EmbedTokens(*transformer_->wte, tokens); }
  at::Tensor AddPositions(const at::Tensor& x, const at::Tensor& places) override {
    EmbeddingLayer& wpe = *transformer_->wpe;
    return transformer_->drop->forward(
        x + (places.defined() ? wpe.forward(places).unsqueeze(1) : wpe.weight.slice(0, 0, x.size(1))));
  }
  LayerList& blocks() override { return *transformer_->h; }
  at::Tensor LastNorm(const at::Tensor& x) override { return NormForProducts(*transformer_->ln_f, x); }
  at::Tensor Head(const at::Tensor& x) override {
    return lm_head_ ? lm_head_->forward(x) : at::linear(x, transformer_->wte->weight);
  }

 private:
  // What ends a branch begins smaller, so that their sum over the layers does not grow.
  void ScaleBranches(const Gpt2Options& options) {
    const at::NoGradGuard no_grad;
    const double std = options.initializer_range / std::sqrt(2.0 * static_cast<double>(options.n_layer));
    for (const auto& item : named_parameters()) {
      if (absl::EndsWith(item.key(), ".c_proj.weight")) item.value().normal_(0, std);
    }
  }

  std::shared_ptr<Gpt2Body> transformer_;
  Slot<Layer> lm_head_;  // empty: tied
};

}  // namespace

std::shared_ptr<DecoderModel> MakeGpt2(const Gpt2Options& options) {
  TORCH_CHECK_VALUE(options.n_embd % options.n_head == 0, "model.n_embd: ", options.n_embd,
                    " must be a multiple of n_head ", options.n_head);
  return std::make_shared<Gpt2>(options, options.n_inner > 0 ? options.n_inner : 4 * options.n_embd);
}

}  // namespace composer
