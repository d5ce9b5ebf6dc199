// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/value_embeddings.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"

namespace composer {
namespace {

// An embedding with the parameter of another one, which notes the tokens that it is given.
class NotingEmbedding final : public EmbeddingLayer {
 public:
  NotingEmbedding(const torch::nn::EmbeddingImpl& old, TokensInUse tokens)
      : EmbeddingLayer(torch::nn::EmbeddingOptions(old.options)._weight(old.weight)), tokens_(std::move(tokens)) {
    weight.set_requires_grad(old.weight.requires_grad());
  }
  at::Tensor forward(const at::Tensor& x) override {
    *tokens_ = x;
    return EmbeddingLayer::forward(x);
  }

 private:
  TokensInUse tokens_;
};

// The linear layers beside attention's core that make the values: [out, in], or [in, out] if transposed.
constexpr struct {
  const char* name;
  int64_t parts;  // of the output, of which the values are one
  bool transposed;
} kProjections[] = {{"v_proj", 1, false}, {"qkv", 3, false}, {"Wqkv", 3, false}, {"c_attn", 3, true}};

// Returns the width of the values of the attention whose core has this name; 0: not known.
int64_t WidthOfValues(const torch::OrderedDict<std::string, at::Tensor>& params, const std::string& core) {
  for (const auto& projection : kProjections) {
    const std::string weight = absl::StrCat(core.substr(0, core.rfind('.') + 1), projection.name, ".weight");
    if (const at::Tensor* found = params.find(weight))
      return found->size(projection.transposed ? 1 : 0) / projection.parts;
  }
  return 0;
}

// Returns attention's cores in the order of the layers, without those inside others.
NamedModules OuterCores(const Model& model) {
  NamedModules cores = FindLayers(model, [](const std::string&, const torch::nn::Module& module) {
    return dynamic_cast<const AttentionCore*>(&module) != nullptr;
  });
  NamedModules outer;
  for (const auto& core : cores) {
    if (outer.empty() || !absl::StartsWith(core.first, outer.back().first + ".")) outer.push_back(core);
  }
  return outer;
}

bool IsOfTokens(const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  return last == "wte" || last == "embed_tokens";
}

}  // namespace

at::Tensor AddValueEmbeddings(const at::Tensor& v, const at::Tensor& tokens, const at::Tensor& table,
                              const at::Tensor& scale) {
  TORCH_CHECK_VALUE(v.dim() == 4 && tokens.dim() == 2 && tokens.size(0) == v.size(0) && tokens.size(1) == v.size(2) &&
                        table.dim() == 2 && table.size(1) == v.size(1) * v.size(3),
                    "value_embeddings: values ", v.sizes(), " do not fit tokens ", tokens.sizes(), " and a table ",
                    table.sizes());
  const at::Tensor rows = at::embedding(table, tokens).unflatten(2, {v.size(1), v.size(3)}).transpose(1, 2);
  return v * scale.select(0, 0) + rows.to(v.scalar_type()) * scale.select(0, 1);
}

ValueEmbeddedAttention::ValueEmbeddedAttention(std::shared_ptr<torch::nn::Module> core, int64_t vocabulary,
                                               int64_t width, TokensInUse tokens)
    : core_(*this, "core", std::move(core)),
      table_(*this, "value_embedding", std::make_shared<EmbeddingLayer>(vocabulary, width)),
      scale_(register_parameter("value_scale", torch::ones({2}))),
      tokens_(std::move(tokens)) {
  const torch::NoGradGuard no_grad;
  table_->weight.zero_();
}

at::Tensor ValueEmbeddedAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                           const std::optional<at::Tensor>& mask, bool is_causal) {
  TORCH_CHECK_VALUE(is_asked_, "value_embeddings: the model's attention does not ask its core for Values, as ",
                    "CausalAttention (models/attention_cache.h) does");
  return core_->forward(q, k, v, mask, is_causal);
}

at::Tensor ValueEmbeddedAttention::Values(const at::Tensor& v) {
  is_asked_ = true;
  return AddValueEmbeddings(core_->Values(v), *tokens_, table_->weight, scale_);
}

absl::Status ValueEmbeddings::ChangeModel(Model& model, const ModelContext& context) {
  const auto refuse = [&](const std::string& needed) {
    return PoliciesFor(*this, context).empty()
               ? absl::InvalidArgumentError(absl::StrCat("value_embeddings: it needs ", needed))
               : absl::OkStatus();
  };
  const auto params = model.named_parameters();
  const auto tokens = std::make_shared<at::Tensor>();
  NamedModules cores = OuterCores(model);
  const NamedModules embeddings = FindLayers(model, [](const std::string& name, const torch::nn::Module& module) {
    return IsOfTokens(name) && dynamic_cast<const EmbeddingLayer*>(&module) != nullptr;
  });
  const auto count = static_cast<int64_t>(cores.size());
  absl::flat_hash_map<const torch::nn::Module*, int64_t> widths;
  for (int64_t i = 0; i < count; ++i) {
    if (i >= num_layers_ && i < count - num_layers_) continue;
    const auto& [name, core] = cores[static_cast<size_t>(i)];
    const int64_t width = widths[core.get()] = WidthOfValues(params, name);
    if (width == 0) return refuse(absl::StrCat("a linear layer v_proj, qkv, Wqkv or c_attn beside ", name));
    if (dynamic_cast<const ValueEmbeddedAttention*>(core.get()) != nullptr)
      return absl::InvalidArgumentError(absl::StrCat("value_embeddings: ", name, " has them already"));
  }
  const bool fits = count > 0 && embeddings.size() == 1;
  ReplaceLayersOf(
      model, context,
      [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) -> std::shared_ptr<torch::nn::Module> {
        if (!fits) return nullptr;
        const auto& embedding = *embeddings[0].second->as<torch::nn::EmbeddingImpl>();
        if (module == embeddings[0].second) return std::make_shared<NotingEmbedding>(embedding, tokens);
        const auto chosen = widths.find(module.get());
        if (chosen == widths.end()) return nullptr;
        return std::make_shared<ValueEmbeddedAttention>(module, embedding.options.num_embeddings(), chosen->second,
                                                        tokens);
      });
  if (fits) return absl::OkStatus();
  return refuse(absl::StrCat("a decoder with attention (AttentionCore) and one embedding of tokens, `wte` or ",
                             "`embed_tokens`; ", ClassNameOf(model), " has ", count, " and ", embeddings.size()));
}

std::vector<std::pair<std::string, size_t>> ValueEmbeddings::LayersOf(const Model& model) const {
  return {{"value_embeddings/num_layers", FindLayers(model, LayersOfType<ValueEmbeddedAttention>()).size()}};
}

}  // namespace composer
