// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/adam_bf16.h"

#include <ATen/Parallel.h>

#include <cmath>

namespace composer {
namespace {

constexpr int64_t kGrain = 16384;  // elements of a thread

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16U;
  float x = 0;
  __builtin_memcpy(&x, &wide, sizeof(x));
  return x;
}

inline uint32_t RandomBits(uint32_t seed, uint32_t element) {
  uint32_t hash = element * 0x9E3779B1U + seed;
  hash = (hash ^ (hash >> 16U)) * 0x85EBCA6BU;
  hash = (hash ^ (hash >> 13U)) * 0xC2B2AE35U;
  return hash ^ (hash >> 16U);
}

// std::sqrt may set errno, so that compilers do not make a loop of it parallel.
inline float Root(float x) {
#if defined(__clang__)
  return __builtin_elementwise_sqrt(x);
#else
  return std::sqrt(x);
#endif
}

struct Elements {
  float* param;
  const float* grad;
  uint16_t *exp_avg, *exp_avg_sq;
};

[[gnu::always_inline]] inline void Run(const AdamBf16Update& update, const Elements& of, int64_t begin, int64_t end) {
  const AdamBf16Update u = update;
  float* __restrict param = of.param;
  const float* __restrict grad = of.grad;
  uint16_t* __restrict exp_avg = of.exp_avg;
  uint16_t* __restrict exp_avg_sq = of.exp_avg_sq;
  for (int64_t i = begin; i < end; ++i) {
    float p = param[i] * u.keep;
    const float g = grad[i] + u.l2 * p;
    float m = FromBf16(exp_avg[i]), v = FromBf16(exp_avg_sq[i]);
    m += (1 - u.beta1) * (g - m);
    v = u.beta2 * v + (1 - u.beta2) * g * g;
    p -= u.step_size * m / (Root(v) * u.inverse_root + u.eps);
    param[i] = p;
    const uint32_t random = RandomBits(u.seed, static_cast<uint32_t>(i));
    exp_avg[i] = RoundToBf16(m, random);
    exp_avg_sq[i] = RoundToBf16(v, random >> 16U);
  }
}

void RunAnywhere(const AdamBf16Update& update, const Elements& of, int64_t begin, int64_t end) {
  Run(update, of, begin, end);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void RunOnAvx2(const AdamBf16Update& update, const Elements& of, int64_t begin,
                                           int64_t end) {
  Run(update, of, begin, end);
}
#endif

using RunOn = decltype(&RunAnywhere);

RunOn OfThisMachine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RunOnAvx2;
#endif
  return RunAnywhere;
}

}  // namespace

void ApplyAdamBf16(const AdamBf16Update& update, const at::Tensor& param, const at::Tensor& grad,
                   const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) {
  TORCH_CHECK(param.is_cpu() && param.scalar_type() == at::kFloat && grad.scalar_type() == at::kFloat,
              "Adam with moments in bfloat16 updates float32 parameters on a CPU, not ", param.scalar_type(), " on ",
              param.device());
  for (const at::Tensor* other : {&grad, &exp_avg, &exp_avg_sq})
    TORCH_CHECK(other->is_cpu() && other->sizes() == param.sizes() && other->strides() == param.strides(),
                "Adam with moments in bfloat16: gradient and moments are not laid out as their parameter");
  const Elements of{param.data_ptr<float>(), static_cast<const float*>(grad.const_data_ptr()),
                    static_cast<uint16_t*>(exp_avg.data_ptr()), static_cast<uint16_t*>(exp_avg_sq.data_ptr())};
  static const RunOn kRun = OfThisMachine();
  at::parallel_for(0, param.numel(), kGrain, [&](int64_t begin, int64_t end) { kRun(update, of, begin, end); });
}

}  // namespace composer
