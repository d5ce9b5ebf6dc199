// ValueEmbeddings adds to attention's values of a decoder a vector that is looked up by the token itself, in a table of
// the layer's own, so that a layer knows which token a position has, whatever the layers before it made of it:
//
//   v <- a v + b E[token]
//
// with trained a, b and E [vocabulary, width of the values]. a and b begin with 1 and E with 0, so that the model is at
// first what it was. The first and the last layers have tables. Caches of text generation keep the sum. It goes with
// alibi and qk_norm in any order.
//
// Source: github.com/KellerJordan/modded-nanogpt (records of December 2024 on), where the first and the last three
// layers share their tables, which begin with N(0, 1), and a and b with 0.5; related: Zhou et al. 2024 (value residual
// learning), arXiv:2410.17897.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

// Returns scale[0] v + scale[1] E[tokens]: v [B, heads, T, D], tokens int64 [B, T], table [vocabulary, heads D]. Throws
// c10::ValueError when they do not fit together.
at::Tensor AddValueEmbeddings(const at::Tensor& v, const at::Tensor& tokens, const at::Tensor& table,
                              const at::Tensor& scale);

// The tokens of the pass in progress: what the model's embedding of tokens was given last.
using TokensInUse = std::shared_ptr<at::Tensor>;

// Parameters: value_embedding.weight and value_scale [2].
class ValueEmbeddedAttention final : public torch::nn::Module, public AttentionCore {
 public:
  // `core` is an AttentionCore.
  ValueEmbeddedAttention(std::shared_ptr<torch::nn::Module> core, int64_t vocabulary, int64_t width,
                         TokensInUse tokens);
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override;
  at::Tensor Values(const at::Tensor& v) override;

 private:
  Slot<AttentionCore> core_;
  Slot<EmbeddingLayer> table_;
  at::Tensor scale_;
  TokensInUse tokens_;
  bool is_asked_ = false;  // for Values
};

class ValueEmbeddings final : public Surgery {
 public:
  // Of the first and of the last layers, each num_layers > 0.
  explicit ValueEmbeddings(int64_t num_layers = 3) : num_layers_(num_layers) {}
  std::string name() const override { return "ValueEmbeddings"; }
  // Returns kInvalidArgument for a model whose embedding of tokens or projections of values are none that it knows; it
  // names what it looked for.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;

 private:
  int64_t num_layers_;
};

}  // namespace composer
