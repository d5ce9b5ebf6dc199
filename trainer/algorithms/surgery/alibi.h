// Alibi gives attention linear biases in place of position embeddings, so that a model can be trained on shorter
// sequences than it is used with:
//
//   logits of query t and key s of head h  +=  -m_h |t - s|
//
// The slopes m_h of H heads are 2^(-8 h / H), h = 1 … H, for powers of two; for others those of the next smaller power,
// then every second one of the next larger. Position embeddings (`wpe` or `position_embeddings`) become zero, are
// frozen and have max_sequence_length rows, which the model then takes. At AFTER_DATALOADER batches [B, T] are cut into
// [B / s, T s], s = train_sequence_length_scaling; clocks count the samples that were loaded.
//
// What it needs, at start and by name: attention by DotProductAttention; such an embedding; with tensor parallelism a
// plan of layers. Source: Press et al. 2021, arXiv:2108.12409; mosaicml composer/algorithms/alibi, which has this for
// GPT-2 and BERT (and for GPT-2 adds m_h s, the same after the softmax). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/callback.h"
#include "trainer/layers/attention_core.h"

namespace composer {

struct AlibiOptions {
  int64_t max_sequence_length = 0;              // >= 1
  double train_sequence_length_scaling = 0.25;  // above 0; 1 leaves batches as they are
};

std::vector<double> AlibiSlopes(int64_t heads);

// Cuts all tensors of the batch. Throws c10::ValueError when it does not come out even.
void ScaleSequences(Batch& batch, double scaling);

// DotProductAttention with the biases; queries are the last of the keys.
class AlibiAttention final : public torch::nn::Module, public AttentionCore {
 public:
  explicit AlibiAttention(double dropout) : dropout_(dropout) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override;
  bool TakeHeads(int64_t rank, int64_t ranks) override {
    rank_ = rank;
    ranks_ = ranks;
    return true;
  }

 private:
  double dropout_;
  int64_t rank_ = 0, ranks_ = 1;  // which run of the heads these are
};

class Alibi final : public Algorithm {
 public:
  explicit Alibi(const AlibiOptions& options) : options_(options) {}
  std::string name() const override { return "Alibi"; }
  EventSet events() const override { return {Event::kInit, Event::kAfterDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  // Returns kInvalidArgument that names what the model lacks.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool adds_samples() const override { return options_.train_sequence_length_scaling < 1; }
  bool required_on_load() const override { return true; }

 private:
  AlibiOptions options_;
};

}  // namespace composer
