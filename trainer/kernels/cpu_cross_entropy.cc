// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "trainer/kernels/cpu_autocast.h"
#include "trainer/kernels/cpu_vector.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr float kLeast = -87;  // below it, exp counts as 0

struct LogitRows {
  const void* logits;
  const int64_t* targets;
  int64_t classes, ignore_index;
  float *loss, *lse;   // forward writes, backward reads lse
  const float* dloss;  // backward
  void* dlogits;       // backward, of the logits' type
  int64_t begin, end;
};

COMPOSER_INLINE Floats ExpOrZero(Floats x) {
  const Floats power = Exp(Within(x, kLeast, 87));
  return {x.v < Floats::All(kLeast).v ? Floats::Raw{} : power.v};
}

template <typename T>
struct LossOfRows {
  COMPOSER_INLINE static void Run(const LogitRows& rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* x = static_cast<const T*>(rows.logits) + row * rows.classes;
      const int64_t whole = rows.classes / kLanes * kLanes, rest = rows.classes - whole;
      Floats largest = Floats::All(-std::numeric_limits<float>::infinity());
      for (int64_t i = 0; i < whole; i += kLanes) largest = Larger(LoadAll(x + i), largest);
      float max = Largest(largest);
      for (int64_t i = whole; i < rows.classes; ++i) max = std::max(max, One(x + i));
      Floats sums = Floats::All(0);
      for (int64_t i = 0; i < whole; i += kLanes) sums = sums + ExpOrZero(LoadAll(x + i) - max);
      float sum = Sum(sums);
      if (rest > 0) {
        float lanes[kLanes];
        StoreAll(ExpOrZero(Load(x + whole, rest) - max), lanes);
        for (int64_t i = 0; i < rest; ++i) sum += lanes[i];
      }
      const float log = std::log(sum);
      const bool counts = rows.targets[row] != rows.ignore_index;
      rows.loss[row] = counts ? log - (One(x + rows.targets[row]) - max) : 0;
      rows.lse[row] = max + log;
    }
  }
  COMPOSER_INLINE static float One(const T* x) {
    float lanes[kLanes];
    StoreAll(Load(x, 1), lanes);
    return lanes[0];
  }
};

template <typename T>
struct GradientOfRows {
  COMPOSER_INLINE static void Run(const LogitRows& rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const T* x = static_cast<const T*>(rows.logits) + row * rows.classes;
      T* dx = static_cast<T*>(rows.dlogits) + row * rows.classes;
      const int64_t target = rows.targets[row];
      if (target == rows.ignore_index) {
        std::fill(dx, dx + rows.classes, T{});
        continue;
      }
      const float lse = rows.lse[row], factor = rows.dloss[row];
      for (int64_t i = 0; i < rows.classes; i += kLanes) {
        const int64_t count = rows.classes - i;
        Store(ExpOrZero(Load(x + i, count) - lse) * factor, dx + i, count);
      }
      const Floats of_target = (ExpOrZero(Load(x + target, 1) - lse) - 1.0F) * factor;
      Store(of_target, dx + target, 1);
    }
  }
};

template <template <typename> class Work>
void RunAll(const LogitRows& all, const at::Tensor& logits) {
  logits.scalar_type() == at::kBFloat16 ? RunRows<Work<uint16_t>>(all, logits.size(0), all.classes)
                                        : RunRows<Work<float>>(all, logits.size(0), all.classes);
}

// By LibTorch's operators, for a gradient of the gradient.
at::Tensor DifferentiableGradient(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& dloss,
                                  int64_t ignore_index) {
  const at::Tensor counts = targets.ne(ignore_index);
  const at::Tensor classes = targets.where(counts, at::zeros_like(targets)).unsqueeze(1);
  const at::Tensor softmax = at::softmax(logits.to(at::kFloat), 1);
  const at::Tensor target = at::zeros_like(softmax).scatter(1, classes, 1);
  const at::Tensor gradient = (softmax - target) * dloss.unsqueeze(1);
  return gradient.where(counts.unsqueeze(1), at::zeros_like(gradient)).to(logits.scalar_type());
}

struct CpuCrossEntropyFunction : torch::autograd::Function<CpuCrossEntropyFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& logits, const Variable& targets, int64_t ignore_index) {
    const at::Tensor x = logits.contiguous(), classes = targets.contiguous();
    at::Tensor loss = at::empty({x.size(0)}, x.options().dtype(at::kFloat)), lse = at::empty_like(loss);
    const int64_t* of_rows = static_cast<const int64_t*>(classes.const_data_ptr());
    for (int64_t i = 0; i < x.size(0); ++i) {
      TORCH_CHECK_INDEX(of_rows[i] == ignore_index || (of_rows[i] >= 0 && of_rows[i] < x.size(1)), "Target ",
                        of_rows[i], " is out of bounds.");
    }
    const LogitRows rows{.logits = x.const_data_ptr(),
                         .targets = of_rows,
                         .classes = x.size(1),
                         .ignore_index = ignore_index,
                         .loss = loss.mutable_data_ptr<float>(),
                         .lse = lse.mutable_data_ptr<float>(),
                         .dloss = nullptr,
                         .dlogits = nullptr,
                         .begin = 0,
                         .end = 0};
    RECORD_FUNCTION_WITH_INPUTS_OUTPUTS("composer::cross_entropy", (std::array<const c10::IValue, 1>{x}),
                                        (std::vector<c10::IValue>{loss}));
    RunAll<LossOfRows>(rows, x);
    ctx->save_for_backward({logits, targets, lse});
    ctx->saved_data["ignore_index"] = ignore_index;
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const int64_t ignore_index = ctx->saved_data["ignore_index"].toInt();
    if (at::GradMode::is_enabled()) return {DifferentiableGradient(saved[0], saved[1], grads[0], ignore_index), {}, {}};
    const at::Tensor x = saved[0].contiguous(), classes = saved[1].contiguous(), dloss = grads[0].contiguous();
    at::Tensor lse = saved[2], dx = at::empty(x.sizes(), x.options());
    const LogitRows rows{.logits = x.const_data_ptr(),
                         .targets = static_cast<const int64_t*>(classes.const_data_ptr()),
                         .classes = x.size(1),
                         .ignore_index = ignore_index,
                         .loss = nullptr,
                         .lse = lse.mutable_data_ptr<float>(),
                         .dloss = static_cast<const float*>(dloss.const_data_ptr()),
                         .dlogits = dx.mutable_data_ptr(),
                         .begin = 0,
                         .end = 0};
    RECORD_FUNCTION_WITH_INPUTS_OUTPUTS("composer::cross_entropy_backward", (std::array<const c10::IValue, 1>{x}),
                                        (std::vector<c10::IValue>{dx}));
    RunAll<GradientOfRows>(rows, x);
    return {dx, {}, {}};
  }
};

}  // namespace

bool TakesCpuCrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  return logits.is_cpu() && targets.is_cpu() && logits.dim() == 2 && targets.dim() == 1 && logits.size(1) > 0 &&
         targets.size(0) == logits.size(0) && targets.scalar_type() == at::kLong &&
         (logits.scalar_type() == at::kBFloat16 || logits.scalar_type() == at::kFloat) && CpuAutocastsToBf16();
}

at::Tensor CpuCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index) {
  return CpuCrossEntropyFunction::apply(logits, targets, ignore_index);
}

}  // namespace composer::kernels
