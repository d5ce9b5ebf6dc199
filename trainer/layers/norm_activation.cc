// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/norm_activation.h"

#include <ATen/record_function.h>

#include <typeinfo>

#include "trainer/kernels/cpu_batch_norm.h"
#include "trainer/layers/call_record.h"
#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

// Null unless one kernel may stand for the two layers.
BatchNorm2dLayer* BeforeRelu(Layer& norm, const Layer& activation) {
  const bool fits = typeid(norm) == typeid(BatchNorm2dLayer) && typeid(activation) == typeid(ReluLayer);
  return fits ? static_cast<BatchNorm2dLayer*>(&norm) : nullptr;
}

// Returns relu(norm(x) + shortcut) by the kernel, or an undefined tensor, and then nothing has changed.
at::Tensor ByKernel(BatchNorm2dLayer& norm, const at::Tensor& x, const at::Tensor& shortcut) {
  if (!norm.options.momentum().has_value() || !norm.num_batches_tracked.defined()) return {};
  const kernels::BatchNormOf of{
      norm.weight,        norm.bias,         norm.running_mean, norm.running_var, *norm.options.momentum(),
      norm.options.eps(), norm.is_training()};
  if (!kernels::TakesCpuBatchNorm(x, shortcut, of)) return {};
  at::RecordFunction record(at::RecordScope::USER_SCOPE);
  if (record.isActive()) {
    if (record.needsOutputs()) return {};  // the norm's own result would be nowhere
    BeginCallRecord(record, norm, x);
  }
  if (of.training) norm.num_batches_tracked += 1;
  return kernels::CpuBatchNorm(x, shortcut, of, /*relu=*/true);
}

}  // namespace

at::Tensor NormActivation(Layer& norm, Layer& activation, const at::Tensor& x) {
  if (BatchNorm2dLayer* const batch_norm = BeforeRelu(norm, activation); batch_norm != nullptr) {
    if (at::Tensor y = ByKernel(*batch_norm, x, {}); y.defined()) return y;
  }
  return activation.forward(norm.forward(x));
}

at::Tensor NormSumActivation(Layer& norm, ResidualSum& sum, Layer& activation, ResidualSum::Part x,
                             ResidualSum::Part shortcut) {
  BatchNorm2dLayer* const batch_norm = BeforeRelu(norm, activation);
  if (batch_norm == nullptr || typeid(sum) != typeid(AddResidual))
    return activation.forward(sum.forward([&] { return norm.forward(x()); }, shortcut));
  const at::Tensor input = x(), other = shortcut();
  if (at::Tensor y = ByKernel(*batch_norm, input, other); y.defined()) return y;
  return activation.forward(sum.forward([&] { return norm.forward(input); }, [&] { return other; }));
}

}  // namespace composer
