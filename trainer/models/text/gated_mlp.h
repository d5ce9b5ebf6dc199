// The feed-forward networks of Llama's kind: one, or several experts of which each token passes a few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/layers/slot.h"
#include "trainer/models/text/llama.h"

namespace composer {

// down(act(gate(x)) * up(x)). Shazeer 2020, arXiv:2002.05202.
class GatedMlp final : public torch::nn::Module, public Layer {
 public:
  // The names of the three layers.
  struct Names {
    const char *gate, *up, *down;
  };
  GatedMlp(const LlamaOptions& options, const Names& names);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  Slot<Layer> gate_, up_, down_, act_;
};

// Each token passes the num_experts_per_tok experts with the largest softmax(gate(x)); their outputs are summed with
// these weights, which are scaled to the sum 1. All experts take part in backward, also those without a token. Jiang et
// al. 2024, arXiv:2401.04088; transformers models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock.
class SparseExperts final : public torch::nn::Module, public Layer {
 public:
  explicit SparseExperts(const LlamaOptions& options);
  // [B, T, width] to [B, T, width].
  at::Tensor forward(const at::Tensor& x) override;

 private:
  int64_t chosen_;
  Slot<Layer> gate_;
  std::shared_ptr<LayerList> experts_;
};

}  // namespace composer
