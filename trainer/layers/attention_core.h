// The part of attention between its projections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "trainer/layers/layer.h"

namespace composer {

class AttentionCore : public Replaceable {
 public:
  // Maps queries [B, heads, T, D], keys and values [B, heads, S, D] to [B, heads, T, D]. A token sees those that `mask`
  // (boolean, broadcastable to [B, heads, T, S]) lets it see and, if is_causal (T equal to S), none after itself.
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const std::optional<at::Tensor>& mask, bool is_causal) = 0;
  // Tells the core that it is given the rank-th of `ranks` equal runs of the heads from now on. Returns false when it
  // must see all heads.
  virtual bool TakeHeads(int64_t /*rank*/, int64_t /*ranks*/) { return false; }
  // Returns the values [B, heads', T, D] of new tokens as a decoder's attention uses them and its cache keeps them.
  virtual at::Tensor Values(const at::Tensor& v) { return v; }

 protected:
  // What every core comes down to: LibTorch's scaled_dot_product_attention, by the kernels that the run permits
  // (attention_backend.h). `mask` is boolean or is added to the logits, and excludes is_causal; scale: 1 / sqrt(D) if
  // not given. Inputs for which cuDNN's backward pass may give NaN (attention_core.cc) go to the next kernel.
  static at::Tensor Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                           std::optional<double> scale = std::nullopt);
};

// softmax(q k' / sqrt(D)) v, with dropout of the probabilities in training. Source: Vaswani et al. 2017,
// arXiv:1706.03762, section 3.2.1.
class DotProductAttention final : public torch::nn::Module, public AttentionCore {
 public:
  explicit DotProductAttention(double dropout) : dropout_(dropout) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override;
  bool TakeHeads(int64_t /*rank*/, int64_t /*ranks*/) override { return true; }  // it treats all alike
  double dropout() const { return dropout_; }

 private:
  double dropout_;
};

// [B, T, heads * head_width] to [B, heads, T, head_width], and back.
at::Tensor SplitHeads(const at::Tensor& x, int64_t head_width);
at::Tensor JoinHeads(const at::Tensor& x);

}  // namespace composer
