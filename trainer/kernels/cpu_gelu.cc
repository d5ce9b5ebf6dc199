// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_gelu.h"

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "trainer/kernels/cpu_vector.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr float kRoot = 0.7978845608F, kCubic = 0.044715F;

COMPOSER_INLINE Floats Sigmoid2u(Floats x) {
  const Floats exponent = (x + x * x * x * kCubic) * (-2 * kRoot);
  return Floats::All(1) / (Exp(Within(exponent, -87, 87)) + 1.0F);
}

struct Elements {
  const uint16_t *x, *dy;  // dy: null for the forward pass
  uint16_t* out;
  int64_t begin, end;
};

struct Gelu {
  COMPOSER_INLINE static void Run(const Elements& of) {
    for (int64_t i = of.begin; i < of.end; i += kLanes) {
      const int64_t count = of.end - i;
      const Floats x = Load(of.x + i, count), s = Sigmoid2u(x);
      if (of.dy == nullptr) {
        Store(x * s, of.out + i, count);
        continue;
      }
      const Floats slope = (x * x * (3 * kCubic) + 1.0F) * (2 * kRoot);
      Store(Load(of.dy + i, count) * (s + x * s * (Floats::All(1) - s) * slope), of.out + i, count);
    }
  }
};

at::Tensor RunAll(const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty(in.sizes(), in.options());
  const Elements of{static_cast<const uint16_t*>(in.const_data_ptr()),
                    dy.defined() ? static_cast<const uint16_t*>(dy.const_data_ptr()) : nullptr,
                    static_cast<uint16_t*>(out.mutable_data_ptr()), 0, 0};
  RunRows<Gelu>(of, in.numel(), 1);
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

}  // namespace

bool TakesCpuGelu(const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kBFloat16; }

at::Tensor CpuGelu(const at::Tensor& x) { return GeluFunction::apply(x); }

}  // namespace composer::kernels
