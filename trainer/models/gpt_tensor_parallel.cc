// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/gpt_tensor_parallel.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <optional>
#include <vector>

#include "trainer/core/block.h"
#include "trainer/core/module_call.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/models/attention_cache.h"
#include "trainer/models/language_model.h"
#include "trainer/models/sequence_mask.h"
#include "trainer/parallel/tensor/tensor_parallel.h"
#include "trainer/parallel/tensor/tensor_rank_random.h"
#include "trainer/parallel/tensor/vocab_parallel.h"

namespace composer {
namespace {

torch::nn::LayerNorm FullNorm(const GptOptions& options) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width}));
}

// Attention of this rank's heads: [B, T, W] -> [B, T, W], a part of a sum, without the bias.
class TpAttention final : public torch::nn::Module {
 public:
  TpAttention(const GptOptions& options, const Communicator& group)
      : head_width_(options.width / options.heads),
        core_(*this, "core", std::make_shared<DotProductAttention>(options.dropout)),
        qkv_(
            register_module("qkv", std::make_shared<ColumnParallelLinear>(options.width, 3 * options.width, group, 3))),
        proj_(register_module("proj", std::make_shared<RowParallelLinear>(options.width, options.width, group))) {}

  // inputs are the block's (attention_cache.h).
  at::Tensor forward(const at::Tensor& x, const std::vector<at::Tensor>& inputs = {}) {
    ModuleCall call(*this, x);
    return call.Output(proj_->forward(CausalAttention(*core_, qkv_->forward(x), head_width_, inputs)));
  }
  const at::Tensor& bias() const { return proj_->bias; }

 private:
  int64_t head_width_;
  Slot<AttentionCore> core_;
  std::shared_ptr<ColumnParallelLinear> qkv_;
  std::shared_ptr<RowParallelLinear> proj_;
};

class TpFeedForward final : public torch::nn::Module {
 public:
  TpFeedForward(const GptOptions& options, const Communicator& group)
      : fc_(register_module("fc", std::make_shared<ColumnParallelLinear>(options.width, 4 * options.width, group))),
        proj_(register_module("proj", std::make_shared<RowParallelLinear>(4 * options.width, options.width, group))) {}

  at::Tensor forward(const at::Tensor& x) {
    ModuleCall call(*this, x);
    return call.Output(proj_->forward(gelu_.forward(fc_->forward(x))));
  }
  const at::Tensor& bias() const { return proj_->bias; }

 private:
  std::shared_ptr<ColumnParallelLinear> fc_;
  std::shared_ptr<RowParallelLinear> proj_;
  GeluLayer gelu_{torch::nn::GELUOptions().approximate("tanh")};
};

// One block: [B, T/t, W] -> [B, T/t, W].
class TpGptBlock final : public Block {
 public:
  TpGptBlock(const GptOptions& options, Communicator& group)
      : group_(group),
        dropout_(options.dropout),
        ln_1_(register_module("ln_1", FullNorm(options))),
        attn_(register_module("attn", std::make_shared<TpAttention>(options, group))),
        ln_2_(register_module("ln_2", FullNorm(options))),
        mlp_(register_module("mlp", std::make_shared<TpFeedForward>(options, group))) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const bool has_cache = inputs.size() > 1 && inputs[1].defined();
    if (has_cache) return WithCache(inputs);
    const at::Tensor& x = inputs[0];
    const std::vector<at::Tensor> whole =
        Replicated({ln_1_->weight, ln_1_->bias, attn_->bias(), ln_2_->weight, ln_2_->bias, mlp_->bias()}, group_);
    const at::Tensor y = x + Branch(*attn_, x, whole[0], whole[1], whole[2], inputs);
    return y + Branch(*mlp_, y, whole[3], whole[4], whole[5]);
  }

 private:
  // In generation a single token does not split over ranks, so each rank has all of them, x [B, T, W].
  at::Tensor WithCache(const std::vector<at::Tensor>& inputs) {
    const auto summed = [this](const at::Tensor& part) {
      group_.AllReduceSum(part);
      return part;
    };
    const at::Tensor& x = inputs[0];
    const at::Tensor y = x + (summed(attn_->forward(ln_1_->forward(x), inputs)) + attn_->bias());
    return y + (summed(mlp_->forward(ln_2_->forward(y))) + mlp_->bias());
  }

  // further: what the part's forward takes besides its input.
  template <typename Part, typename... Further>
  at::Tensor Branch(Part& part, const at::Tensor& x, const at::Tensor& norm_weight, const at::Tensor& norm_bias,
                    const at::Tensor& bias, const Further&... further) {
    const at::Tensor normed = at::layer_norm(x, {x.size(2)}, norm_weight, norm_bias, ln_1_->options.eps());
    const at::Tensor y = ScatterSequence(part.forward(GatherSequence(normed, group_), further...), group_) + bias;
    return dropout_ == 0 ? y : at::dropout(y, dropout_, is_training());
  }

  Communicator& group_;
  double dropout_;
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<TpAttention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<TpFeedForward> mlp_;
};

class TpTransformer final : public torch::nn::Module {
 public:
  TpTransformer(const GptOptions& options, Communicator& group)
      : wte(register_module("wte", std::make_shared<VocabParallelWeight>(options.vocab, options.width, group))),
        wpe(register_module("wpe", torch::nn::Embedding(options.context, options.width))) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.layers; ++i) {
      blocks.push_back(std::make_shared<TpGptBlock>(options, group));
      list->push_back(blocks.back());
    }
    register_module("blocks", list);
    ln_f = register_module("ln_f", FullNorm(options));
  }

  std::shared_ptr<VocabParallelWeight> wte;
  torch::nn::Embedding wpe;
  std::vector<std::shared_ptr<TpGptBlock>> blocks;
  torch::nn::LayerNorm ln_f{nullptr};
};

class TpGpt final : public LanguageModel {
 public:
  TpGpt(const GptOptions& options, Communicator& group, const Model& whole)
      : LanguageModel(options.context, options.vocab, group.world_size()),
        group_(group),
        context_(options.context),
        dropout_(options.dropout),
        cache_shape_{options.layers, options.heads / group.world_size(), options.width / options.heads},
        transformer_(register_module("transformer", std::make_shared<TpTransformer>(options, group))) {
    head_ = transformer_->wte;
    if (!options.tied_head) {
      head_ = register_module("lm_head", std::make_shared<VocabParallelWeight>(options.vocab, options.width, group));
    }
    const NamedParameters values = ParametersByName(whole);
    if (!values[0].second.is_meta()) CopyFromWhole(*this, values);
    flops_per_sample_ = whole.flops_per_sample();
    if (const auto* language_model = dynamic_cast<const LanguageModel*>(&whole))
      SetLossChunk(language_model->loss_chunk());
  }

  Outputs forward(const Batch& batch) override {
    const at::Tensor x = LastStates(batch);
    if (is_training() || gives_losses(batch)) return LogitsOrLosses(x, batch);
    return GatherVocabulary(Head(x), head_->split(), group_);
  }

  Outputs eval_forward(const Batch& batch) override {
    if (loss_chunk() > 0 || !batch.targets.defined()) return LanguageModel::eval_forward(batch);
    return Head(LastStates(batch));
  }

 protected:
  // Of this rank's part of the vocabulary: [.., width] -> [.., vocab / t].
  at::Tensor Head(const at::Tensor& x) override { return head_->Logits(x); }
  at::Tensor LossOfLogits(const at::Tensor& logits, const at::Tensor& targets) override {
    return VocabParallelLosses(logits, targets, head_->split(), group_, kIgnoreIndex);
  }

  TokenLosses token_losses() const override {
    const TokenLosses computed = LanguageModel::token_losses();
    return [this, computed](const at::Tensor& logits, const at::Tensor& targets) {
      if (computed && logits.dim() < 3) return computed(logits, targets);
      if (logits.size(-1) != head_->split().shape[0])
        return VocabParallelLosses(logits, targets, head_->split(), group_, kIgnoreIndex);
      return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten(), {}, at::Reduction::None, kIgnoreIndex)
          .view(targets.sizes());
    };
  }

  std::unique_ptr<DecoderCache> NewCache(int64_t rows, int64_t capacity) override {
    return std::make_unique<AttentionCache>(cache_shape_, rows, capacity);
  }
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override {
    if (cache == nullptr) return LanguageModel::NextLogits(tokens, lengths, nullptr);
    auto& own = static_cast<AttentionCache&>(*cache);
    TpTransformer& parts = *transformer_;
    at::Tensor x = parts.wte->Embed(tokens);
    group_.AllReduceSum(x);
    own.BeginPass(x, tokens.size(1), lengths);
    const bool first = !own.places().defined();
    x = x + (first ? parts.wpe->weight.slice(0, 0, tokens.size(1)) : parts.wpe->forward(own.places()).unsqueeze(1));
    for (size_t layer = 0; layer < parts.blocks.size(); ++layer) x = parts.blocks[layer]->Run(own.Inputs(x, layer));
    x = parts.ln_f->forward(first ? LastOfEachRow(x, lengths) : x.squeeze(1));
    return GatherVocabulary(Head(x.unsqueeze(1)), head_->split(), group_).squeeze(1);
  }

 private:
  // Returns the last norm's output, the same on all ranks: [B, T] -> [B, T, width].
  at::Tensor LastStates(const Batch& batch) {
    const at::Tensor& inputs = batch.inputs;
    TORCH_CHECK_VALUE(inputs.dim() == 2 && inputs.size(1) <= context_, "gpt: expected inputs [B, T] with T up to ",
                      context_, " (context), got ", inputs.sizes());
    std::optional<TensorRankRandomScope> random;
    if (dropout_ > 0 && is_training()) random.emplace(group_);
    const at::Tensor tokens = Padded(inputs), mask = MaskOf(batch, tokens);
    const int64_t mine = tokens.size(1) / group_.world_size(), begin = mine * group_.rank();
    const torch::nn::LayerNorm& norm = transformer_->ln_f;
    const std::vector<at::Tensor> params = Replicated({transformer_->wpe->weight, norm->weight, norm->bias}, group_);
    at::Tensor x = ScatterSequence(transformer_->wte->Embed(tokens), group_) + params[0].slice(0, begin, begin + mine);
    if (dropout_ > 0) x = at::dropout(x, dropout_, is_training());
    for (const auto& block : transformer_->blocks)
      x = mask.defined() ? block->Run(UncachedInputs(x, mask)) : block->forward(x);
    x = at::layer_norm(x, {x.size(2)}, params[1], params[2], norm->options.eps());
    return GatherSequence(x, group_).narrow(1, 0, inputs.size(1));
  }

  // Returns SequenceMask for the padded tokens.
  static at::Tensor MaskOf(const Batch& batch, const at::Tensor& tokens) {
    const auto given = batch.extra.find("sequence_id");
    if (given == batch.extra.end()) return {};
    Batch padded;
    padded.inputs = tokens;
    padded.extra["sequence_id"] = at::constant_pad_nd(given->second, {0, tokens.size(1) - batch.inputs.size(1)}, -1);
    return SequenceMask(padded);
  }

  // Pads the sequence so that all ranks have parts of equal length. No token sees those after it.
  at::Tensor Padded(const at::Tensor& tokens) const {
    const int64_t more = (group_.world_size() - tokens.size(1) % group_.world_size()) % group_.world_size();
    if (more == 0) return tokens;
    TORCH_CHECK_VALUE(tokens.size(1) + more <= context_, "gpt: sequences of ", tokens.size(1),
                      " tokens do not split over tensor_parallel_degree ", group_.world_size(), ", and the context of ",
                      context_, " has no room for more");
    return at::constant_pad_nd(tokens, {0, more});
  }

  Communicator& group_;
  int64_t context_;
  double dropout_;
  AttentionCache::Shape cache_shape_;  // of this rank's heads
  std::shared_ptr<TpTransformer> transformer_;
  std::shared_ptr<VocabParallelWeight> head_;
};

}  // namespace

std::shared_ptr<Model> MakeTensorParallelGpt(const GptOptions& options, const Model& whole, Communicator& group) {
  TORCH_CHECK_VALUE(options.heads >= 1 && options.heads % group.world_size() == 0, "gpt: heads ", options.heads,
                    " do not split over tensor_parallel_degree ", group.world_size());
  return std::make_shared<TpGpt>(options, group, whole);
}

}  // namespace composer
