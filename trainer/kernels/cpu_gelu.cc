// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_gelu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <cstring>

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 16384;  // elements of a thread
constexpr float kRoot = 0.7978845608F, kCubic = 0.044715F;

#define COMPOSER_INLINE [[gnu::always_inline]] inline

COMPOSER_INLINE float FromBits(uint32_t bits) {
  float x = 0;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

COMPOSER_INLINE float FromBf16(uint16_t bits) { return FromBits(static_cast<uint32_t>(bits) << 16U); }

// To the nearest, ties to even; NaN stays NaN.
COMPOSER_INLINE uint16_t ToBf16(float x) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  return static_cast<uint16_t>(x != x ? 0x7FC0U : rounded);
}

// exp to 2 units in the last place, of x in [-87, 87]: 2^n exp(r) with |r| <= ln(2) / 2, by Cephes' polynomial.
COMPOSER_INLINE float Exp(float x) {
  constexpr float kToInteger = 12582912.0F;  // 1.5 x 2^23: a sum with it has no fraction
  const float n = (x * 1.44269504F + kToInteger) - kToInteger;
  const float r = x - n * 0.693359375F + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  return (p * r * r + r + 1) * FromBits(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23U);
}

COMPOSER_INLINE float Sigmoid2u(float x) {
  const float exponent = -2 * kRoot * (x + kCubic * x * x * x);
  const float low = exponent < -87 ? -87 : exponent;
  return 1 / (1 + Exp(low > 87 ? 87 : low));
}

struct Elements {
  const uint16_t *x, *dy;  // dy: null for the forward pass
  uint16_t* out;
};

COMPOSER_INLINE void Run(const Elements& of, int64_t begin, int64_t end) {
  const uint16_t* __restrict in = of.x;
  const uint16_t* __restrict gradient = of.dy;
  uint16_t* __restrict out = of.out;
  if (gradient == nullptr) {
    for (int64_t i = begin; i < end; ++i) {
      const float x = FromBf16(in[i]);
      out[i] = ToBf16(x * Sigmoid2u(x));
    }
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    const float x = FromBf16(in[i]), s = Sigmoid2u(x);
    const float slope = 2 * kRoot * (1 + 3 * kCubic * x * x);
    out[i] = ToBf16(FromBf16(gradient[i]) * (s + x * s * (1 - s) * slope));
  }
}

void RunAnywhere(const Elements& of, int64_t begin, int64_t end) { Run(of, begin, end); }
using RunOn = decltype(&RunAnywhere);

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void RunOnAvx2(const Elements& of, int64_t begin, int64_t end) { Run(of, begin, end); }
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]] void RunOnAvx512(const Elements& of, int64_t begin,
                                                                           int64_t end) {
  Run(of, begin, end);
}
#endif

RunOn OfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return RunOnAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RunOnAvx2;
#endif
  return RunAnywhere;
}

at::Tensor RunAll(const at::Tensor& x, const at::Tensor& dy) {
  static const RunOn run = OfThisMachine();
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty(in.sizes(), in.options());
  const Elements of{static_cast<const uint16_t*>(in.const_data_ptr()),
                    dy.defined() ? static_cast<const uint16_t*>(dy.const_data_ptr()) : nullptr,
                    static_cast<uint16_t*>(out.mutable_data_ptr())};
  at::parallel_for(0, in.numel(), kGrain, [&](int64_t begin, int64_t end) { run(of, begin, end); });
  return out;
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& x) {
    ctx->save_for_backward({x});
    return RunAll(x, {});
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {at::gelu_backward(grads[0], x, "tanh")};
    return {RunAll(x, grads[0].to(at::kBFloat16).contiguous())};
  }
};

#undef COMPOSER_INLINE

}  // namespace

bool TakesCpuGelu(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kBFloat16; }

at::Tensor CpuGelu(const at::Tensor& x) { return GeluFunction::apply(x); }

}  // namespace composer::kernels
