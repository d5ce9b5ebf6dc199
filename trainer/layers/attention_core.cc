// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/attention_core.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "trainer/kernels/cpu_autocast.h"
#include "trainer/layers/no_autocast.h"

namespace composer {
namespace {

// On a CPU the backward pass of attention takes four times as long in bfloat16 as in float32 (7.9 and 2.1 ms of [12, 4,
// 64, 32]), which is more than the conversions cost: a step of char_gpt_bf16 (benchmarks/step_overhead.cc) takes 0.8 of
// the time.
bool IsFasterInFloat32(const at::Tensor& q) {
  return q.is_cpu() && at::GradMode::is_enabled() && q.requires_grad() && kernels::CpuAutocastsToBf16();
}

}  // namespace

at::Tensor DotProductAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const std::optional<at::Tensor>& mask, bool is_causal) {
  const double dropout = is_training() ? dropout_ : 0.0;
  if (!IsFasterInFloat32(q)) return at::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal);
  const NoAutocastScope in_float32(at::kCPU);
  return at::scaled_dot_product_attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, dropout,
                                          is_causal);
}

}  // namespace composer
