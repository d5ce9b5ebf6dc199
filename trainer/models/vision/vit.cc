// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/vit.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "absl/strings/match.h"
#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/layers/layer_list.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

class VitSelfAttention final : public torch::nn::Module, public Layer {
 public:
  explicit VitSelfAttention(const VitOptions& options)
      : head_width_(options.hidden_size / options.num_attention_heads),
        query_(*this, "query", Projection(options)),
        key_(*this, "key", Projection(options)),
        value_(*this, "value", Projection(options)),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.attention_probs_dropout_prob)) {}

  at::Tensor forward(const at::Tensor& x) override {
    ModuleCall call(*this, x);
    const at::Tensor q = SplitHeads(query_->forward(x), head_width_), k = SplitHeads(key_->forward(x), head_width_);
    const at::Tensor v = SplitHeads(value_->forward(x), head_width_);
    return call.Output(JoinHeads(core_->forward(q, k, v, std::nullopt, /*is_causal=*/false)));
  }

 private:
  static std::shared_ptr<LinearLayer> Projection(const VitOptions& options) {
    const int64_t heads = options.num_attention_heads;
    return MakeHeadsLinear(options.hidden_size, heads, options.hidden_size / heads, options.qkv_bias);
  }

  int64_t head_width_;
  Slot<Layer> query_, key_, value_;
  Slot<AttentionCore> core_;
};

// dropout(dense(x)): ViTSelfOutput and ViTOutput.
class VitBranchEnd final : public torch::nn::Module, public Layer {
 public:
  VitBranchEnd(const VitOptions& options, int64_t in)
      : dense_(*this, "dense", MakeLinear(in, options.hidden_size)),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.hidden_dropout_prob)) {}
  at::Tensor forward(const at::Tensor& x) override { return dropout_->forward(dense_->forward(x)); }

 private:
  Slot<Layer> dense_, dropout_;
};

struct VitAttention final : torch::nn::Module {
  explicit VitAttention(const VitOptions& options)
      : attention(*this, "attention", std::make_shared<VitSelfAttention>(options)),
        output(*this, "output", std::make_shared<VitBranchEnd>(options, options.hidden_size)) {}
  Slot<Layer> attention, output;
};

struct VitIntermediate final : torch::nn::Module {
  explicit VitIntermediate(const VitOptions& options)
      : dense(*this, "dense", MakeLinear(options.hidden_size, options.intermediate_size)),
        act(*this, "intermediate_act_fn", MakeActivation("hidden_act", options.hidden_act)) {}
  Slot<Layer> dense, act;
};

class VitBlock final : public Block {
 public:
  explicit VitBlock(const VitOptions& options)
      : attention_(register_module("attention", std::make_shared<VitAttention>(options))),
        intermediate_(register_module("intermediate", std::make_shared<VitIntermediate>(options))),
        output_(*this, "output", std::make_shared<VitBranchEnd>(options, options.intermediate_size)),
        before_(*this, "layernorm_before", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)),
        after_(*this, "layernorm_after", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    const at::Tensor attended =
        attention_->output->forward(attention_->attention->forward(NormForProducts(*before_, x)));
    const auto [sum, y] = AddNorm(*after_, x, attended);
    return output_->forward(LinearActivation(*intermediate_->dense, *intermediate_->act, y)) + sum;
  }

 private:
  std::shared_ptr<VitAttention> attention_;
  std::shared_ptr<VitIntermediate> intermediate_;
  Slot<Layer> output_, before_, after_;
};

// Patches, a first token, positions. [B, C, H, W] to [B, 1 + patches, width].
class VitEmbeddings final : public torch::nn::Module {
 public:
  explicit VitEmbeddings(const VitOptions& options)
      : options_(options),
        cls_token_(register_parameter("cls_token", torch::empty({1, 1, options.hidden_size}))),
        position_embeddings_(
            register_parameter("position_embeddings", torch::empty({1, 1 + Patches(options), options.hidden_size}))) {
    const auto patches = register_module("patch_embeddings", std::make_shared<torch::nn::Module>());
    projection_ =
        Slot<Layer>(*patches, "projection",
                    std::make_shared<Conv2dLayer>(
                        torch::nn::Conv2dOptions(options.num_channels, options.hidden_size, options.patch_size)
                            .stride(options.patch_size)));
    dropout_ = Slot<Layer>(*this, "dropout", std::make_shared<DropoutLayer>(options.hidden_dropout_prob));
  }
  static int64_t Patches(const VitOptions& options) {
    const int64_t side = options.image_size / options.patch_size;
    return side * side;
  }
  at::Tensor forward(const at::Tensor& pictures) {
    const int64_t side = options_.image_size, channels = options_.num_channels;
    TORCH_CHECK_VALUE(pictures.dim() == 4 && pictures.size(1) == channels && pictures.size(2) == side &&
                          pictures.size(3) == side && pictures.is_floating_point(),
                      "model: config.json's image_size and num_channels are for pictures [B, ", channels, ", ", side,
                      ", ", side, "] of floats, but the data's inputs are ", pictures.scalar_type(), " ",
                      pictures.sizes());
    const at::Tensor patches = projection_->forward(pictures).flatten(2).transpose(1, 2);
    const at::Tensor first = cls_token_.expand({pictures.size(0), -1, -1});
    return dropout_->forward(at::cat({first.to(patches.scalar_type()), patches}, 1) + position_embeddings_);
  }

 private:
  VitOptions options_;
  at::Tensor cls_token_, position_embeddings_;
  Slot<Layer> projection_, dropout_;
};

class Vit final : public TextHeadModel {
 public:
  explicit Vit(const VitOptions& options) : TextHeadModel(options.loss) {
    const auto body = register_module("vit", std::make_shared<torch::nn::Module>());
    embeddings_ = body->register_module("embeddings", std::make_shared<VitEmbeddings>(options));
    const auto encoder = body->register_module("encoder", std::make_shared<torch::nn::Module>());
    layers_ = encoder->register_module("layer", std::make_shared<LayerList>());
    for (int64_t i = 0; i < options.num_hidden_layers; ++i) layers_->Add(std::make_shared<VitBlock>(options));
    norm_ = Slot<Layer>(*body, "layernorm", MakeLayerNorm(options.hidden_size, options.layer_norm_eps));
    classifier_ = Slot<Layer>(*this, "classifier", MakeLinear(options.hidden_size, options.num_labels));
    const at::NoGradGuard no_grad;
    for (const auto& item : named_parameters()) {
      at::Tensor param = item.value();
      if (absl::StrContains(item.key(), "layernorm")) continue;
      param.dim() == 1 ? param.zero_() : param.normal_(0, options.initializer_range);
    }
    const auto width = static_cast<double>(options.hidden_size),
               layers = static_cast<double>(options.num_hidden_layers);
    const auto patches = static_cast<double>(VitEmbeddings::Patches(options)), length = patches + 1;
    const double block = 4 * width * width + 2 * width * static_cast<double>(options.intermediate_size);
    const double stem = patches * static_cast<double>(options.num_channels * options.patch_size * options.patch_size);
    flops_per_sample_ = 6 * (length * layers * block + width * (stem + static_cast<double>(options.num_labels))) +
                        12 * layers * width * length * length;
  }
  Outputs forward(const Batch& batch) override {
    at::Tensor x = embeddings_->forward(batch.inputs);
    for (size_t i = 0; i < layers_->size(); ++i) x = (*layers_)[i].forward(x);
    return classifier_->forward(norm_->forward(x).select(1, 0));
  }
  int64_t vocabulary() const override { return 0; }

 private:
  std::shared_ptr<VitEmbeddings> embeddings_;
  std::shared_ptr<LayerList> layers_;
  Slot<Layer> norm_, classifier_;
};

}  // namespace

std::shared_ptr<TextHeadModel> MakeVit(const VitOptions& options) {
  TORCH_CHECK_VALUE(options.hidden_size % options.num_attention_heads == 0, "model.hidden_size: ", options.hidden_size,
                    " must be a multiple of num_attention_heads ", options.num_attention_heads);
  TORCH_CHECK_VALUE(options.patch_size <= options.image_size, "model.patch_size: ", options.patch_size,
                    " must be at most image_size ", options.image_size);
  const size_t weights = options.loss.class_weights.size();
  TORCH_CHECK_VALUE(weights == 0 || static_cast<int64_t>(weights) == options.num_labels,
                    "model.class_weights: ", weights, " of them, but the model has ", options.num_labels, " labels");
  return std::make_shared<Vit>(options);
}

}  // namespace composer
