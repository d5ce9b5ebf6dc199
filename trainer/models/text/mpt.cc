// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/mpt.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <bit>
#include <cmath>
#include <limits>

#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

// The slopes of llm-foundry: those of the next larger power of two; of these every second one first.
std::vector<double> MptSlopes(int64_t heads, double largest) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  std::vector<double> all, slopes;
  for (int64_t h = 1; h <= power; ++h)
    all.push_back(std::exp2(-largest * static_cast<double>(h) / static_cast<double>(power)));
  if (power == heads) return all;
  for (size_t h = 1; h < all.size(); h += 2) slopes.push_back(all[h]);
  for (size_t h = 0; h < all.size(); h += 2) slopes.push_back(all[h]);
  slopes.resize(static_cast<size_t>(heads));
  return slopes;
}

// Adds -slope (t - s) to the logits of query t and key s; queries are the last of the keys.
class MptCore final : public torch::nn::Module, public AttentionCore {
 public:
  explicit MptCore(const MptOptions& options) : options_(options) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    const auto options = torch::dtype(at::kFloat).device(q.device());
    const at::Tensor keys = torch::arange(k.size(2), options);
    const at::Tensor ahead = keys - keys.slice(0, k.size(2) - q.size(2)).unsqueeze(1);
    const at::Tensor slopes =
        torch::tensor(MptSlopes(options_.n_heads, options_.alibi_bias_max), torch::dtype(at::kFloat))
            .slice(0, first_head_, first_head_ + q.size(1));
    at::Tensor bias = slopes.to(q.device()).view({1, -1, 1, 1}) * ahead;  // LibTorch's fast kernel of a CPU wants four
    if (is_causal) bias = bias.masked_fill(ahead.gt(0), kHidden);
    if (mask) bias = bias.masked_fill(mask->logical_not(), kHidden);
    std::optional<double> scale;
    if (options_.softmax_scale > 0) scale = options_.softmax_scale;
    return Attend(q, k, v, bias.to(q.scalar_type()), is_training() ? options_.attn_pdrop : 0.0, false, scale);
  }

  bool TakeHeads(int64_t rank, int64_t ranks) override {
    first_head_ = options_.n_heads / ranks * rank;
    return true;
  }

 private:
  MptOptions options_;
  int64_t first_head_ = 0;
};

class MptAttention final : public torch::nn::Module, public Layer {
 public:
  explicit MptAttention(const MptOptions& options)
      : head_width_(options.d_model / options.n_heads),
        qkv_(*this, "Wqkv", MakeHeadsLinear(options.d_model, options.n_heads, head_width_, /*bias=*/false, 3)),
        out_proj_(*this, "out_proj", MakeLinear(options.d_model, options.d_model, /*bias=*/false)),
        core_(*this, "core", std::make_shared<MptCore>(options)) {}

  at::Tensor forward(const at::Tensor& x) override { return Run({x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    ModuleCall call(*this, inputs.at(0));
    const at::Tensor y = CausalAttention(*core_, qkv_->forward(inputs[0]), head_width_, inputs);
    return call.Output(out_proj_->forward(y));
  }

 private:
  int64_t head_width_;
  Slot<Layer> qkv_, out_proj_;
  Slot<AttentionCore> core_;
};

class MptMlp final : public torch::nn::Module, public Layer {
 public:
  explicit MptMlp(const MptOptions& options)
      : up_proj_(*this, "up_proj", MakeLinear(options.d_model, Inner(options), /*bias=*/false)),
        down_proj_(*this, "down_proj", MakeLinear(Inner(options), options.d_model, /*bias=*/false)),
        act_(*this, "act", MakeActivation("act", "gelu")) {}
  at::Tensor forward(const at::Tensor& x) override {
    ModuleCall call(*this, x);
    return call.Output(down_proj_->forward(LinearActivation(*up_proj_, *act_, x)));
  }

 private:
  static int64_t Inner(const MptOptions& options) { return 4 * options.d_model; }

  Slot<Layer> up_proj_, down_proj_, act_;
};

// torch::nn::LayerNorm, which surgery knows, cannot be without a bias and with a weight.
class MptNorm final : public torch::nn::Module, public NormLayer {
 public:
  explicit MptNorm(const MptOptions& options)
      : weight_(register_parameter("weight", torch::ones({options.d_model}))), eps_(options.layer_norm_epsilon) {}
  kernels::NormWeights norm_weights() const override { return {weight_, {}, eps_, /*centred=*/true}; }
  at::Tensor WithoutKernel(const at::Tensor& x) override {
    return at::layer_norm(x, weight_.sizes(), weight_, /*bias=*/{}, eps_);
  }

 private:
  at::Tensor weight_;
  double eps_;
};

class MptBlock final : public Block {
 public:
  explicit MptBlock(const MptOptions& options)
      : norm_1_(*this, "norm_1", std::make_shared<MptNorm>(options)),
        attn_(*this, "attn", std::make_shared<MptAttention>(options)),
        norm_2_(*this, "norm_2", std::make_shared<MptNorm>(options)),
        ffn_(*this, "ffn", std::make_shared<MptMlp>(options)),
        resid_attn_dropout_(*this, "resid_attn_dropout", std::make_shared<DropoutLayer>(options.resid_pdrop)),
        resid_ffn_dropout_(*this, "resid_ffn_dropout", std::make_shared<DropoutLayer>(options.resid_pdrop)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    std::vector<at::Tensor> to_attention = inputs;
    to_attention[0] = NormForProducts(*norm_1_, inputs[0]);
    const auto [sum, y] = AddNorm(*norm_2_, inputs[0], resid_attn_dropout_->forward(attn_->Run(to_attention)));
    return sum + resid_ffn_dropout_->forward(ffn_->forward(y));
  }

 private:
  Slot<Layer> norm_1_, attn_, norm_2_, ffn_, resid_attn_dropout_, resid_ffn_dropout_;
};

struct MptBody final : torch::nn::Module {
  explicit MptBody(const MptOptions& options)
      : wte(*this, "wte", std::make_shared<EmbeddingLayer>(options.vocab_size, options.d_model)),
        emb_drop(*this, "emb_drop", std::make_shared<DropoutLayer>(options.emb_pdrop)) {
    blocks = register_module("blocks", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.n_layers; ++i) blocks->Add(std::make_shared<MptBlock>(options));
    norm_f = Slot<Layer>(*this, "norm_f", std::make_shared<MptNorm>(options));
  }
  Slot<EmbeddingLayer> wte;
  Slot<Layer> emb_drop;
  std::shared_ptr<LayerList> blocks;
  Slot<Layer> norm_f;
};

class Mpt final : public DecoderModel {
 public:
  explicit Mpt(const MptOptions& options)
      : DecoderModel({.layers = options.n_layers,
                      .heads = options.n_heads,
                      .head_width = options.d_model / options.n_heads,
                      .context = options.max_seq_len,
                      .vocab = options.vocab_size}),
        transformer_(register_module("transformer", std::make_shared<MptBody>(options))) {
    InitialiseTextModel(*this, options.initializer_range);
    const auto width = static_cast<double>(options.d_model), layers = static_cast<double>(options.n_layers);
    SetFlops(layers * 12 * width * width + static_cast<double>(options.vocab_size) * width, width);
  }

 protected:
  at::Tensor Embed(const at::Tensor& tokens) override { return EmbedTokens(*transformer_->wte, tokens); }
  at::Tensor AddPositions(const at::Tensor& x, const at::Tensor& /*places*/) override {
    return transformer_->emb_drop->forward(x);
  }
  LayerList& blocks() override { return *transformer_->blocks; }
  at::Tensor LastNorm(const at::Tensor& x) override { return NormForProducts(*transformer_->norm_f, x); }
  at::Tensor Head(const at::Tensor& x) override { return at::linear(x, transformer_->wte->weight); }

 private:
  std::shared_ptr<MptBody> transformer_;
};

}  // namespace

std::shared_ptr<DecoderModel> MakeMpt(const MptOptions& options) {
  TORCH_CHECK_VALUE(options.d_model % options.n_heads == 0, "model.d_model: ", options.d_model,
                    " must be a multiple of n_heads ", options.n_heads);
  return std::make_shared<Mpt>(options);
}

}  // namespace composer
