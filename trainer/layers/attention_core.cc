// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/attention_core.h"

#include <ATen/SDPBackend.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "trainer/kernels/cpu_autocast.h"
#include "trainer/layers/attention_backend.h"
#include "trainer/layers/no_autocast.h"

namespace composer {
namespace {

// On a CPU the backward pass of attention takes four times as long in bfloat16 as in float32 (7.9 and 2.1 ms of [12, 4,
// 64, 32]), which is more than the conversions cost: a step of char_gpt_bf16 (benchmarks/step_overhead.cc) takes 0.8 of
// the time.
bool IsFasterInFloat32(const at::Tensor& q) {
  return q.is_cpu() && at::GradMode::is_enabled() && q.requires_grad() && kernels::CpuAutocastsToBf16();
}

// Attention whose backward pass by cuDNN 9.19, which LibTorch 2.11 brings, gives NaN for queries with very small
// logits: with a mask, and 64 keys more than a multiple of 128. Source: github.com/pytorch/pytorch/issues/196678.
bool MayBeNanInCudnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask) {
  const bool has_backward = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  return q.is_cuda() && has_backward && mask && k.size(2) % 128 == 64 && mask->size(-1) == k.size(2);
}

// As autocast would give it to attention.
at::Tensor Autocast(const at::Tensor& x) {
  const bool casts = at::autocast::is_autocast_enabled(at::kCUDA) && x.scalar_type() == at::kFloat;
  return casts ? x.to(at::autocast::get_autocast_dtype(at::kCUDA)) : x;
}

// Memory-efficient attention takes all that cuDNN's takes. The mask is what LibTorch makes of it for this kernel.
at::Tensor EfficientAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                              double dropout, std::optional<double> scale) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const at::Tensor bias = mask.scalar_type() == at::kBool
                              ? at::zeros(mask.sizes(), q.options()).masked_fill_(mask.logical_not(), kHidden)
                              : mask.to(q.scalar_type()).contiguous();
  return std::get<0>(at::_scaled_dot_product_efficient_attention(
      q, k, v, bias.expand({q.size(0), q.size(1), q.size(2), k.size(2)}), /*compute_log_sumexp=*/true, dropout,
      /*is_causal=*/false, scale));
}

at::Tensor AttendOnGpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                       std::optional<double> scale) {
  if (MayBeNanInCudnn(q, k, v, mask)) {
    const at::Tensor queries = Autocast(q), keys = Autocast(k), values = Autocast(v);
    const int64_t choice = at::_fused_sdp_choice(queries, keys, values, mask, dropout, is_causal, scale);
    if (choice == static_cast<int64_t>(at::SDPBackend::cudnn_attention))
      return EfficientAttention(queries, keys, values, *mask, dropout, scale);
  }
  return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale);
}

}  // namespace

at::Tensor AttentionCore::Attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
                                 std::optional<double> scale) {
  if (!q.is_cuda()) return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale);
  at::Tensor y = AttendOnGpu(q, k, v, mask, dropout, is_causal, scale);
  TellAttentionKernel(y, q, mask.has_value(), dropout);
  return y;
}

at::Tensor DotProductAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const std::optional<at::Tensor>& mask, bool is_causal) {
  const double dropout = is_training() ? dropout_ : 0.0;
  if (!IsFasterInFloat32(q)) return Attend(q, k, v, mask, dropout, is_causal);
  const NoAutocastScope in_float32(at::kCPU);
  return Attend(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, dropout, is_causal);
}

at::Tensor SplitHeads(const at::Tensor& x, int64_t head_width) {
  return x.unflatten(-1, {-1, head_width}).transpose(1, 2);
}

at::Tensor JoinHeads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

}  // namespace composer
