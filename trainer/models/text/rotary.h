// Rotary position embeddings (RoPE) and the ways to stretch them. Su et al. 2021, arXiv:2104.09864. Names and formulas
// are those of transformers modeling_rope_utils.py:
//   default  frequency i is theta^(-2 i / D), i = 0 … D/2 - 1
//   linear   each divided by factor
//   llama3   long waves divided by factor, short ones kept, with a smooth passage between original_context /
//            low_freq_factor and original_context / high_freq_factor
//   yarn     the same by ramps between beta_fast and beta_slow turns; cos and sin are multiplied by attention_factor
//            (Peng et al. 2023, arXiv:2309.00071)
//   dynamic  of T > original_context tokens, theta times (factor T / original_context - factor + 1)^(D / (D - 2));
//            of fewer, the default
//   longrope frequency i is divided by short_factor i, and of T > original_context tokens by long_factor i; cos and sin
//            are multiplied by attention_factor (Ding et al. 2024, arXiv:2402.13753)
// T is the length of the longest row as far as it is known: keys in a cache stay turned as they were, as in
// transformers. There `dynamic` also remembers the longest T of earlier batches; here a batch's angles are its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace composer {

enum class RopeKind { kDefault, kLinear, kLlama3, kYarn, kDynamic, kLongRope };

struct RopeOptions {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000;
  double factor = 1;                                 // >= 1
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  int64_t original_context = 0;                      // llama3, yarn, dynamic, longrope
  double beta_fast = 32, beta_slow = 1;              // yarn
  // yarn; default: 0.1 ln(factor) + 1. longrope; default: sqrt(1 + ln(factor) / ln(original_context)), 1 for factor 1
  std::optional<double> attention_factor;
  std::optional<double> mscale, mscale_all_dim;   // yarn
  bool truncate = true;                           // yarn: the ramp's ends are whole numbers
  std::vector<double> short_factor, long_factor;  // longrope: D / 2 of each, > 0
};

class Rotary {
 public:
  // head_width is even.
  Rotary(int64_t head_width, const RopeOptions& options);
  // Returns {cos, sin} for x [B, T, width], whose tokens are at the places [B] (T = 1), or 0 … T - 1 if undefined; each
  // [1 or B, 1, T, head_width], in x's dtype and on its device.
  std::vector<at::Tensor> Tables(const at::Tensor& x, const at::Tensor& places) const;

  // Returns the frequencies [head_width / 2] of rows of so many tokens.
  std::vector<float> Frequencies(int64_t tokens) const;
  double scaling() const { return scaling_; }

 private:
  int64_t head_width_;
  RopeOptions options_;
  std::vector<float> frequencies_;  // of rows within original_context
  double scaling_ = 1;              // of cos and sin
};

// Turns q or k, [B, heads, T, D]: halves a, b become a cos - b sin, b cos + a sin.
at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

}  // namespace composer
