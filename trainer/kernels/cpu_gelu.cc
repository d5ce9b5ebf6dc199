// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_gelu.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <array>
#include <vector>

#include "trainer/kernels/cpu_vector.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr float kRoot = 0.7978845608F, kCubic = 0.044715F;

// Where 2 u reaches 87: beyond, s is 1 or 0 to the last bit, and its slope is 0.
constexpr float kFlat = 9.98F;

// `T`: float or uint16_t, a bfloat16.
template <typename T>
struct Elements {
  const T *x, *dy;  // dy: null for the forward pass
  T* out;
  int64_t begin, end;
};

template <typename T>
struct Gelu {
  COMPOSER_INLINE static void Run(const Elements<T>& of) {
    for (int64_t i = of.begin; i < of.end; i += kLanes) {
      const int64_t count = of.end - i;
      const Floats x = Load(of.x + i, count), bent = Within(x, -kFlat, kFlat), square = bent * bent;
      const Floats power = Exp(bent * MultiplyAdd(square, -2 * kRoot * kCubic, -2 * kRoot));
      const Floats s = Floats::All(1) / (power + 1.0F);
      if (of.dy == nullptr) {
        Store(x * s, of.out + i, count);
        continue;
      }
      const Floats slope = MultiplyAdd(square, 6 * kRoot * kCubic, 2 * kRoot);
      const Floats rest = s * power;  // 1 - s, of which a difference would leave few digits
      Store(Load(of.dy + i, count) * s * MultiplyAdd(bent * slope, rest, 1.0F), of.out + i, count);
    }
  }
};

// dy: undefined for the forward pass.
template <typename T>
void RunAll(const at::Tensor& x, const at::Tensor& dy, at::Tensor& out) {
  const Elements<T> of{static_cast<const T*>(x.const_data_ptr()),
                       dy.defined() ? static_cast<const T*>(dy.const_data_ptr()) : nullptr,
                       static_cast<T*>(out.mutable_data_ptr()), 0, 0};
  RunRows<Gelu<T>>(of, x.numel(), 1);
}

at::Tensor RunAll(const at::Tensor& x, const at::Tensor& dy) {
  at::Tensor out = at::empty(x.sizes(), x.options());
  RECORD_FUNCTION_WITH_INPUTS_OUTPUTS(dy.defined() ? "composer::gelu_backward" : "composer::gelu",
                                      (std::array<const c10::IValue, 2>{x, dy}), (std::vector<c10::IValue>{out}));
  x.scalar_type() == at::kFloat ? RunAll<float>(x, dy, out) : RunAll<uint16_t>(x, dy, out);
  return out;
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& x) {
    ctx->save_for_backward({x});
    return CpuGeluForward(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const at::Tensor x = ctx->get_saved_variables()[0];
    if (at::GradMode::is_enabled()) return {at::gelu_backward(grads[0], x, "tanh")};
    return {CpuGeluBackward(grads[0], x)};
  }
};

}  // namespace

bool TakesCpuGelu(const at::Tensor& x) {
  return x.is_cpu() && x.layout() == at::kStrided &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         !at::tracer::impl::is_dispatch_enabled();
}

at::Tensor CpuGeluForward(const at::Tensor& x) { return RunAll(x.contiguous(), {}); }

at::Tensor CpuGeluBackward(const at::Tensor& dy, const at::Tensor& x) {
  return RunAll(x.contiguous(), dy.to(x.scalar_type()).contiguous());
}

at::Tensor GeluByTanh(const at::Tensor& x) { return TakesCpuGelu(x) ? GeluFunction::apply(x) : at::gelu(x, "tanh"); }

}  // namespace composer::kernels
