// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/gpt.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/layer_list.h"
#include "trainer/layers/layer_selector.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/attention_cache.h"
#include "trainer/models/language_model.h"
#include "trainer/models/sequence_mask.h"
#include "trainer/parallel/tensor/split_linear.h"

namespace composer {
namespace {

std::shared_ptr<LinearLayer> QueriesKeysValues(const GptOptions& options) {
  auto linear = std::make_shared<LinearLayer>(options.width, 3 * options.width);
  linear->division = {.parts = 3, .units = options.heads};
  return linear;
}

class Attention final : public torch::nn::Module, public Layer {
 public:
  explicit Attention(const GptOptions& options)
      : head_width_(options.width / options.heads),
        qkv_(*this, "qkv", QueriesKeysValues(options)),
        proj_(*this, "proj", std::make_shared<LinearLayer>(options.width, options.width)),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.dropout)) {}

  at::Tensor forward(const at::Tensor& x) override { return Run({x}); }

  // When there is more than one input, the others are those of attention_cache.h.
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    ModuleCall call(*this, inputs.at(0));
    const at::Tensor y = CausalAttention(*core_, qkv_->forward(inputs[0]), head_width_, inputs);
    return call.Output(proj_->forward(y));
  }

 private:
  int64_t head_width_;
  Slot<Layer> qkv_, proj_;
  Slot<AttentionCore> core_;
};

class FeedForward final : public torch::nn::Module, public Layer {
 public:
  explicit FeedForward(const GptOptions& options)
      : fc_(*this, "fc", std::make_shared<LinearLayer>(options.width, 4 * options.width)),
        proj_(*this, "proj", std::make_shared<LinearLayer>(4 * options.width, options.width)),
        gelu_(*this, "gelu", std::make_shared<GeluLayer>(torch::nn::GELUOptions().approximate("tanh"))) {}

  at::Tensor forward(const at::Tensor& x) override {
    ModuleCall call(*this, x);
    return call.Output(proj_->forward(LinearActivation(*fc_, *gelu_, x)));
  }

 private:
  Slot<Layer> fc_, proj_, gelu_;
};

std::shared_ptr<LayerNormLayer> Norm(const GptOptions& options) {
  return std::make_shared<LayerNormLayer>(torch::nn::LayerNormOptions({options.width}));
}

class GptBlock final : public Block {
 public:
  explicit GptBlock(const GptOptions& options)
      : ln_1_(*this, "ln_1", Norm(options)),
        attn_(*this, "attn", std::make_shared<Attention>(options)),
        ln_2_(*this, "ln_2", Norm(options)),
        mlp_(*this, "mlp", std::make_shared<FeedForward>(options)),
        attn_dropout_(*this, "attn_dropout", std::make_shared<DropoutLayer>(options.dropout)),
        mlp_dropout_(*this, "mlp_dropout", std::make_shared<DropoutLayer>(options.dropout)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    std::vector<at::Tensor> to_attention = inputs;
    to_attention[0] = NormForProducts(*ln_1_, x);
    const auto [sum, y] = AddNorm(*ln_2_, x, attn_dropout_->forward(attn_->Run(to_attention)));
    return sum + mlp_dropout_->forward(mlp_->forward(y));
  }

 private:
  Slot<Layer> ln_1_, attn_, ln_2_, mlp_, attn_dropout_, mlp_dropout_;
};

// Everything up to the last norm: [B, T] -> [B, T, width].
class Transformer final : public torch::nn::Module {
 public:
  explicit Transformer(const GptOptions& options)
      : wte_(*this, "wte", std::make_shared<EmbeddingLayer>(options.vocab, options.width)),
        wpe_(*this, "wpe", std::make_shared<EmbeddingLayer>(options.context, options.width)) {
    blocks_ = register_module("blocks", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.layers; ++i) blocks_->Add(std::make_shared<GptBlock>(options));
    ln_f_ = Slot<Layer>(*this, "ln_f", Norm(options));
    dropout_ = Slot<Layer>(*this, "dropout", std::make_shared<DropoutLayer>(options.dropout));
  }

  // mask: which tokens see which, [B, 1, T, T]; undefined: all earlier ones.
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& mask) {
    TORCH_CHECK_VALUE(tokens.dim() == 2, "gpt: expected inputs [B, T], got ", tokens.sizes());
    TORCH_CHECK_VALUE(tokens.size(1) <= context(), "model.max_seq_len: the model takes ", context(),
                      " tokens, but a sample has ", tokens.size(1));
    at::Tensor x = dropout_->forward(Embed(tokens) + wpe_->weight.slice(0, 0, tokens.size(1)));
    for (size_t layer = 0; layer < blocks_->size(); ++layer)
      x = mask.defined() ? (*blocks_)[layer].Run(UncachedInputs(x, mask)) : (*blocks_)[layer].forward(x);
    return NormForProducts(*ln_f_, x);
  }

  // Returns the last norm's output of each row's last token, [B, width], for CausalDecoder::NextLogits. Without
  // dropout.
  at::Tensor Last(const at::Tensor& tokens, absl::Span<const int64_t> lengths, AttentionCache& cache) {
    at::Tensor x = wte_->forward(tokens);
    cache.BeginPass(x, tokens.size(1), lengths);
    const bool first = !cache.places().defined();
    x = x + (first ? wpe_->weight.slice(0, 0, tokens.size(1)) : wpe_->forward(cache.places()).unsqueeze(1));
    for (size_t layer = 0; layer < blocks_->size(); ++layer) x = (*blocks_)[layer].Run(cache.Inputs(x, layer));
    return ln_f_->forward(first ? LastOfEachRow(x, lengths) : x.squeeze(1));
  }

  // As many tokens as there are positions, also after surgery.
  int64_t context() const { return wpe_->options.num_embeddings(); }
  const at::Tensor& token_embedding() const { return wte_->weight; }

 private:
  at::Tensor Embed(const at::Tensor& tokens) {
    try {
      return wte_->forward(tokens);
    } catch (const c10::IndexError&) {
      const int64_t vocab = wte_->options.num_embeddings(), largest = tokens.max().item<int64_t>();
      TORCH_CHECK_VALUE(largest < vocab, "model.vocab_size: token ", largest, " >= vocab_size ", vocab);
      throw;
    }
  }

  Slot<EmbeddingLayer> wte_, wpe_;
  std::shared_ptr<LayerList> blocks_;
  Slot<Layer> ln_f_, dropout_;
};

class Gpt final : public LanguageModel {
 public:
  explicit Gpt(const GptOptions& options)
      : LanguageModel(options.context, options.vocab),
        cache_shape_{options.layers, options.heads, options.width / options.heads},
        transformer_(register_module("transformer", std::make_shared<Transformer>(options))) {
    if (!options.tied_head) {
      lm_head_ = Slot<Layer>(
          *this, "lm_head",
          std::make_shared<LinearLayer>(torch::nn::LinearOptions(options.width, options.vocab).bias(false)));
    }
    Initialise(options.layers);
    SetFlops(options);
  }

  int64_t context() const override { return transformer_->context(); }
  Outputs forward(const Batch& batch) override {
    return LogitsOrLosses(transformer_->forward(batch.inputs, SequenceMask(batch)), batch);
  }

  std::unique_ptr<DecoderCache> NewCache(int64_t rows, int64_t capacity) override {
    AttentionCache::Shape shape = cache_shape_;
    const auto parts = FindLayers(*this, LayersOfType<ColwiseLinear>());
    for (const auto& [name, part] : parts) {
      if (absl::EndsWith(name, ".attn.qkv")) shape.heads = cache_shape_.heads / part->as<ColwiseLinear>()->ranks();
    }
    return std::make_unique<AttentionCache>(shape, rows, capacity);
  }
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override {
    if (cache == nullptr) return LanguageModel::NextLogits(tokens, lengths, nullptr);
    return Head(transformer_->Last(tokens, lengths, static_cast<AttentionCache&>(*cache)));
  }

 private:
  at::Tensor Head(const at::Tensor& x) override {
    return lm_head_ ? lm_head_->forward(x) : at::linear(x, transformer_->token_embedding());
  }

  void Initialise(int64_t layers) {
    const at::NoGradGuard no_grad;
    const double scale = 1 / std::sqrt(2.0 * static_cast<double>(layers));
    for (const auto& item : named_parameters()) {
      const std::string& name = item.key();
      if (name.find("ln_") != std::string::npos) continue;
      const bool ends_branch = name.size() > 12 && name.compare(name.size() - 12, 12, ".proj.weight") == 0;
      if (item.value().dim() < 2) {
        item.value().zero_();
      } else {
        item.value().normal_(0, ends_branch ? 0.02 * scale : 0.02);
      }
    }
  }

  // Per token, 6 operations for each weight in a matrix product and 12 * layers * width * context for attention's two
  // products.
  // Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B.
  void SetFlops(const GptOptions& options) {
    const auto layers = static_cast<double>(options.layers), width = static_cast<double>(options.width);
    const auto context = static_cast<double>(options.context), vocab = static_cast<double>(options.vocab);
    const double weights = layers * 12 * width * width + vocab * width;
    flops_per_sample_ = context * (6 * weights + 12 * layers * width * context);
  }

  AttentionCache::Shape cache_shape_;
  std::shared_ptr<Transformer> transformer_;
  Slot<Layer> lm_head_;  // empty: tied
};

void CheckAtLeastOne(const char* field, int64_t value) {
  TORCH_CHECK_VALUE(value >= 1, "gpt: ", field, " must be at least 1, got ", value);
}

}  // namespace

std::shared_ptr<Model> MakeGpt(const GptOptions& options) {
  CheckAtLeastOne("layers", options.layers);
  CheckAtLeastOne("heads", options.heads);
  CheckAtLeastOne("width", options.width);
  CheckAtLeastOne("context", options.context);
  CheckAtLeastOne("vocab", options.vocab);
  TORCH_CHECK_VALUE(options.width % options.heads == 0, "gpt: width ", options.width, " must be a multiple of heads ",
                    options.heads);
  TORCH_CHECK_VALUE(options.dropout >= 0 && options.dropout < 1, "gpt: dropout must be from 0 to below 1, got ",
                    options.dropout);
  return std::make_shared<Gpt>(options);
}

}  // namespace composer
