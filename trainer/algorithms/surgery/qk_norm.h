// QkNorm normalises the queries and keys of every attention before their products, head by head, so that attention's
// logits stay bounded and higher learning rates work:
//
//   q <- q / sqrt(mean(q²) + eps),   k <- k / sqrt(mean(k²) + eps)
//
// over a head's width, in float32, without a gain. Since rotary positions keep lengths it is the same before and
// after them. It is put around the attention core (layers/attention_core.h), whatever that is, so it goes with alibi
// in either order, with caches of text generation, and with tensor parallelism, which leaves heads whole.
//
// Source: Henry et al. 2020, arXiv:2010.04245; Dehghani et al. 2023, arXiv:2302.05442; without a gain as in
// github.com/KellerJordan/modded-nanogpt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/slot.h"

namespace composer {

// Returns x [*, D] over the root of its mean square in the last dimension, of x's dtype.
at::Tensor NormalizeHeads(const at::Tensor& x, double eps);

class QkNormAttention final : public torch::nn::Module, public AttentionCore {
 public:
  // `core` is an AttentionCore.
  QkNormAttention(std::shared_ptr<torch::nn::Module> core, double eps)
      : core_(*this, "core", std::move(core)), eps_(eps) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override;
  bool TakeHeads(int64_t rank, int64_t ranks) override { return core_->TakeHeads(rank, ranks); }
  at::Tensor Values(const at::Tensor& v) override { return core_->Values(v); }

 private:
  Slot<AttentionCore> core_;
  double eps_;
};

class QkNorm final : public Surgery {
 public:
  // eps >= 0.
  explicit QkNorm(double eps = 1e-6) : eps_(eps) {}
  std::string name() const override { return "QkNorm"; }
  // Returns kInvalidArgument for a model without attention, and for one that normalises queries and keys itself.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;

 private:
  double eps_;
};

}  // namespace composer
