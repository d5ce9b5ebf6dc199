// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/bert.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/layers/slot.h"
#include "trainer/models/text/bert_encoder.h"
#include "trainer/models/text/text_layers.h"

namespace composer {
namespace {

const char* PrefixOf(const BertOptions& options) { return options.roberta ? "roberta" : "bert"; }

class BertTask : public TextHeadModel {
 public:
  int64_t vocabulary() const override { return vocab_; }

 protected:
  BertTask(const BertOptions& options, double head_weights) : TextHeadModel(options.loss), vocab_(options.vocab_size) {
    const auto width = static_cast<double>(options.hidden_size),
               layers = static_cast<double>(options.num_hidden_layers);
    const auto length = static_cast<double>(options.max_position_embeddings);
    const double block = 4 * width * width + 2 * width * static_cast<double>(options.intermediate_size);
    flops_per_sample_ = length * (6 * (layers * block + head_weights) + 12 * layers * width * length);
  }

 private:
  int64_t vocab_;
};

// dense, activation, norm, then the token embeddings and a bias: BertLMPredictionHead and RobertaLMHead.
class MaskedLmBert final : public BertTask {
 public:
  explicit MaskedLmBert(const BertOptions& options)
      : BertTask(options, static_cast<double>(options.hidden_size * (options.hidden_size + options.vocab_size))),
        encoder_(register_module(PrefixOf(options), std::make_shared<BertEncoder>(options, /*has_pooler=*/false))) {
    const auto part = [](torch::nn::Module& of, const char* name) {
      return of.register_module(name, std::make_shared<torch::nn::Module>());
    };
    const auto head = options.roberta ? part(*this, "lm_head") : part(*part(*this, "cls"), "predictions");
    bias_ = head->register_parameter("bias", torch::zeros({options.vocab_size}));
    const auto transform = options.roberta ? head : part(*head, "transform");
    dense_ = Slot<Layer>(*transform, "dense", MakeLinear(options.hidden_size, options.hidden_size));
    norm_ = Slot<Layer>(*transform, options.roberta ? "layer_norm" : "LayerNorm",
                        MakeLayerNorm(options.hidden_size, options.layer_norm_eps));
    act_ = Slot<Layer>(*transform, "act", MakeActivation("hidden_act", options.roberta ? "gelu" : options.hidden_act));
    InitialiseTextModel(*this, options.initializer_range);
  }
  Outputs forward(const Batch& batch) override {
    const at::Tensor x = norm_->forward(act_->forward(dense_->forward(encoder_->forward(batch))));
    return at::linear(x, encoder_->words(), bias_);
  }

 private:
  std::shared_ptr<BertEncoder> encoder_;
  at::Tensor bias_;
  Slot<Layer> dense_, norm_, act_;
};

// RoBERTa's classifier: dropout, dense, tanh, dropout, out_proj.
class RobertaClassifier final : public torch::nn::Module, public Layer {
 public:
  explicit RobertaClassifier(const BertOptions& options)
      : dense_(*this, "dense", MakeLinear(options.hidden_size, options.hidden_size)),
        out_proj_(*this, "out_proj", MakeLinear(options.hidden_size, options.num_labels)),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.classifier_dropout)) {}
  at::Tensor forward(const at::Tensor& x) override {
    return out_proj_->forward(dropout_->forward(at::tanh(dense_->forward(x))));
  }

 private:
  Slot<Layer> dense_, out_proj_, dropout_;
};

class ClassifyingBert final : public BertTask {
 public:
  explicit ClassifyingBert(const BertOptions& options)
      : BertTask(options, 0),
        by_token_(options.loss.task == TextTask::kTokenClassification),
        pools_(!by_token_ && !options.roberta),
        encoder_(register_module(PrefixOf(options), std::make_shared<BertEncoder>(options, pools_))),
        dropout_(*this, "dropout", std::make_shared<DropoutLayer>(options.classifier_dropout)) {
    std::shared_ptr<torch::nn::Module> classifier = MakeLinear(options.hidden_size, options.num_labels);
    if (options.roberta && !by_token_) classifier = std::make_shared<RobertaClassifier>(options);
    classifier_ = Slot<Layer>(*this, "classifier", std::move(classifier));
    InitialiseTextModel(*this, options.initializer_range);
  }
  Outputs forward(const Batch& batch) override {
    const at::Tensor hidden = encoder_->forward(batch);
    const at::Tensor x = by_token_ ? hidden : pools_ ? encoder_->Pool(hidden) : hidden.select(1, 0);
    return classifier_->forward(dropout_->forward(x));
  }

 private:
  bool by_token_, pools_;
  std::shared_ptr<BertEncoder> encoder_;
  Slot<Layer> dropout_, classifier_;
};

// BertModel, whose parameters have no prefix: the encoder's children are this model's own.
class BareBert final : public BertTask {
 public:
  explicit BareBert(const BertOptions& options)
      : BertTask(options, 0),
        pools_(options.loss.task == TextTask::kFeatures),
        encoder_(std::make_shared<BertEncoder>(options, pools_)) {
    for (const auto& child : encoder_->named_children()) register_module(child.key(), child.value());
    InitialiseTextModel(*this, options.initializer_range);
  }
  Outputs forward(const Batch& batch) override {
    const at::Tensor hidden = encoder_->forward(batch);
    if (!pools_) return hidden;
    return Outputs(Outputs::Named{{"outputs", hidden}, {"pooler_output", encoder_->Pool(hidden)}});
  }

 private:
  bool pools_;
  std::shared_ptr<BertEncoder> encoder_;
};

}  // namespace

std::shared_ptr<TextHeadModel> MakeBert(const BertOptions& options) {
  TORCH_CHECK_VALUE(options.hidden_size % options.num_attention_heads == 0, "model.hidden_size: ", options.hidden_size,
                    " must be a multiple of num_attention_heads ", options.num_attention_heads);
  TORCH_CHECK_VALUE(!options.roberta || options.max_position_embeddings > options.pad_token_id + 1,
                    "model.max_position_embeddings: ", options.max_position_embeddings,
                    " leaves no position behind pad_token_id ", options.pad_token_id);
  const size_t weights = options.loss.class_weights.size();
  TORCH_CHECK_VALUE(
      weights == 0 || (options.loss.task != TextTask::kMaskedLm && static_cast<int64_t>(weights) == options.num_labels),
      "model.class_weights: ", weights, " of them, but the model has ", options.num_labels, " labels");
  switch (options.loss.task) {
    case TextTask::kMaskedLm:
      return std::make_shared<MaskedLmBert>(options);
    case TextTask::kFeatures:
    case TextTask::kEmbedding:
      return std::make_shared<BareBert>(options);
    default:
      return std::make_shared<ClassifyingBert>(options);
  }
}

}  // namespace composer
