// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/bert_encoder.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

// A module that is only there for its name, with one child.
template <typename Child>
std::shared_ptr<Child> Under(torch::nn::Module& parent, const char* outer, const char* inner) {
  const auto made = parent.register_module(outer, std::make_shared<torch::nn::Module>());
  return made->register_module(inner, std::make_shared<Child>());
}

class BertSelfAttention final : public torch::nn::Module, public Layer {
 public:
  explicit BertSelfAttention(const BertOptions& options)
      : head_width_(options.hidden_size / options.num_attention_heads),
        query_(*this, "query", Projection(options)),
        key_(*this, "key", Projection(options)),
        value_(*this, "value", Projection(options)),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.attention_probs_dropout_prob)) {}

  at::Tensor forward(const at::Tensor& x) override { return Run({x}); }
  // inputs[1], if there, is the mask.
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs.at(0);
    ModuleCall call(*this, x);
    std::optional<at::Tensor> mask;
    if (inputs.size() > 1 && inputs[1].defined()) mask = inputs[1];
    const at::Tensor q = SplitHeads(query_->forward(x), head_width_), k = SplitHeads(key_->forward(x), head_width_);
    const at::Tensor v = SplitHeads(value_->forward(x), head_width_);
    return call.Output(JoinHeads(core_->forward(q, k, v, mask, /*is_causal=*/false)));
  }

 private:
  static std::shared_ptr<LinearLayer> Projection(const BertOptions& options) {
    const int64_t heads = options.num_attention_heads;
    return MakeHeadsLinear(options.hidden_size, heads, options.hidden_size / heads, /*bias=*/true);
  }

  int64_t head_width_;
  Slot<Layer> query_, key_, value_;
  Slot<AttentionCore> core_;
};

// LayerNorm(dropout(dense(x)) + residual): BertSelfOutput and BertOutput.
class BertBranchEnd final : public torch::nn::Module, public Layer {
 public:
  BertBranchEnd(const BertOptions& options, int64_t in)
      : dense_(*this, "dense", MakeLinear(in, options.hidden_size)),
        norm_(*this, "LayerNorm", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.hidden_dropout_prob)) {}

  at::Tensor forward(const at::Tensor& x) override { return dropout_->forward(dense_->forward(x)); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override {
    return NormOfSum(*norm_, inputs.at(1), forward(inputs.at(0)));
  }

 private:
  Slot<Layer> dense_, norm_, dropout_;
};

struct BertAttention final : torch::nn::Module {
  explicit BertAttention(const BertOptions& options)
      : self(*this, "self", std::make_shared<BertSelfAttention>(options)),
        output(*this, "output", std::make_shared<BertBranchEnd>(options, options.hidden_size)) {}
  Slot<Layer> self, output;
};

struct BertIntermediate final : torch::nn::Module {
  explicit BertIntermediate(const BertOptions& options)
      : dense(*this, "dense", MakeLinear(options.hidden_size, options.intermediate_size)),
        act(*this, "intermediate_act_fn", MakeActivation("hidden_act", options.hidden_act)) {}
  Slot<Layer> dense, act;
};

class BertBlock final : public Block {
 public:
  explicit BertBlock(const BertOptions& options)
      : attention_(register_module("attention", std::make_shared<BertAttention>(options))),
        intermediate_(register_module("intermediate", std::make_shared<BertIntermediate>(options))),
        output_(*this, "output", std::make_shared<BertBranchEnd>(options, options.intermediate_size)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    const at::Tensor y = attention_->output->Run({attention_->self->Run(inputs), x});
    return output_->Run({LinearActivation(*intermediate_->dense, *intermediate_->act, y), y});
  }

 private:
  std::shared_ptr<BertAttention> attention_;
  std::shared_ptr<BertIntermediate> intermediate_;
  Slot<Layer> output_;
};

// Returns which tokens are seen, [B, 1, 1, T]; undefined: all.
at::Tensor SeenTokens(const Batch& batch) {
  const auto given = batch.extra.find("attention_mask");
  if (given == batch.extra.end()) return {};
  const at::Tensor& mask = given->second;
  TORCH_CHECK_VALUE(mask.sizes() == batch.inputs.sizes(), "model: attention_mask must have the inputs' shape ",
                    batch.inputs.sizes(), ", got ", mask.sizes());
  return mask.ne(0).view({mask.size(0), 1, 1, mask.size(1)});
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertOptions& options)
    : options_(options),
      word_embeddings_(*this, "word_embeddings",
                       MakeEmbedding(options.vocab_size, options.hidden_size, options.pad_token_id)),
      position_embeddings_(*this, "position_embeddings",
                           MakeEmbedding(options.max_position_embeddings, options.hidden_size,
                                         options.roberta ? options.pad_token_id : -1)),
      token_type_embeddings_(*this, "token_type_embeddings",
                             MakeEmbedding(options.type_vocab_size, options.hidden_size)),
      norm_(*this, "LayerNorm", MakeLayerNorm(options.hidden_size, options.layer_norm_eps)),
      dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.hidden_dropout_prob)) {}

at::Tensor BertEmbeddings::Positions(const at::Tensor& tokens) {
  const int64_t first = options_.roberta ? options_.pad_token_id + 1 : 0;
  const int64_t longest = position_embeddings_->options.num_embeddings() - first;
  TORCH_CHECK_VALUE(tokens.size(1) <= longest, "model.max_position_embeddings: the model takes ", longest,
                    " tokens, but a sample has ", tokens.size(1));
  if (!options_.roberta) return position_embeddings_->weight.slice(0, 0, tokens.size(1));
  const at::Tensor counts = tokens.ne(options_.pad_token_id).to(at::kLong);
  return position_embeddings_->forward(counts.cumsum(1) * counts + options_.pad_token_id);
}

at::Tensor BertEmbeddings::forward(const Batch& batch) {
  const at::Tensor& tokens = batch.inputs;
  TORCH_CHECK_VALUE(tokens.dim() == 2, "model: expected inputs [B, T], got ", tokens.sizes());
  const auto types = batch.extra.find("token_type_ids");
  const at::Tensor of_type = types == batch.extra.end() ? token_type_embeddings_->weight.select(0, 0)
                                                        : token_type_embeddings_->forward(types->second);
  const at::Tensor x = EmbedTokens(*word_embeddings_, tokens) + of_type + Positions(tokens);
  return dropout_->forward(norm_->forward(x));
}

BertEncoder::BertEncoder(const BertOptions& options, bool has_pooler)
    : embeddings_(register_module("embeddings", std::make_shared<BertEmbeddings>(options))),
      layers_(Under<LayerList>(*this, "encoder", "layer")) {
  for (int64_t i = 0; i < options.num_hidden_layers; ++i) layers_->Add(std::make_shared<BertBlock>(options));
  if (!has_pooler) return;
  const auto pooler = register_module("pooler", std::make_shared<torch::nn::Module>());
  pooler_ = Slot<Layer>(*pooler, "dense", MakeLinear(options.hidden_size, options.hidden_size));
}

at::Tensor BertEncoder::forward(const Batch& batch) {
  const at::Tensor mask = SeenTokens(batch);
  at::Tensor x = embeddings_->forward(batch);
  for (size_t layer = 0; layer < layers_->size(); ++layer) x = (*layers_)[layer].Run({x, mask});
  return x;
}

at::Tensor BertEncoder::Pool(const at::Tensor& hidden) { return at::tanh(pooler_->forward(hidden.select(1, 0))); }

}  // namespace composer
