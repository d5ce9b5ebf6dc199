// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/fused_layers.h"

#include <ATen/ATen.h>

#include <typeinfo>

#include "trainer/kernels/cpu_cross_entropy.h"
#include "trainer/kernels/cpu_norm.h"
#include "trainer/layers/call_record.h"
#include "trainer/layers/torch_layers.h"

namespace composer {
namespace {

// Shows observers what a kernel gave for the norm, of which they would see no operator.
kernels::SumAndNorm Observed(const Layer& norm, kernels::SumAndNorm result) {
  at::RecordFunction record(at::RecordScope::USER_SCOPE);
  if (record.isActive()) {
    if (const auto* module = dynamic_cast<const torch::nn::Module*>(&norm); module != nullptr) {
      BeginCallRecord(record, *module, result.sum);
      EndCallRecord(record, result.y);
    }
  }
  return result;
}

}  // namespace

at::Tensor NormLayer::forward(const at::Tensor& x) {
  const kernels::NormWeights weights = norm_weights();
  return kernels::TakesNorm(x, {}, weights) ? Observed(*this, kernels::AddNorm(x, {}, weights)).y : WithoutKernel(x);
}

at::Tensor NormForProducts(Layer& norm, const at::Tensor& x) {
  if (const auto* layer = dynamic_cast<const NormLayer*>(&norm); layer != nullptr) {
    const kernels::NormWeights weights = layer->norm_weights();
    if (kernels::TakesCpuNorm(x, {}, weights)) return Observed(norm, kernels::CpuAddNorm(x, {}, weights)).y;
  }
  return norm.forward(x);
}

at::Tensor NormOfSum(Layer& norm, const at::Tensor& x, const at::Tensor& branch) {
  if (const auto* layer = dynamic_cast<const NormLayer*>(&norm); layer != nullptr) {
    const kernels::NormWeights weights = layer->norm_weights();
    if (kernels::TakesNorm(x, branch, weights)) return Observed(norm, kernels::AddNorm(x, branch, weights)).y;
  }
  return norm.forward(x + branch);
}

kernels::SumAndNorm AddNorm(Layer& norm, const at::Tensor& x, const at::Tensor& branch) {
  if (const auto* layer = dynamic_cast<const NormLayer*>(&norm); layer != nullptr) {
    const kernels::NormWeights weights = layer->norm_weights();
    if (kernels::TakesNorm(x, branch, weights)) return Observed(norm, kernels::AddNorm(x, branch, weights));
    if (kernels::TakesCpuNorm(x, branch, weights)) return Observed(norm, kernels::CpuAddNorm(x, branch, weights));
  }
  const at::Tensor sum = x + branch;
  return {sum, norm.forward(sum)};
}

at::Tensor LinearActivation(Layer& linear, Layer& activation, const at::Tensor& x) {
  const auto* const product = typeid(linear) == typeid(LinearLayer) ? static_cast<LinearLayer*>(&linear) : nullptr;
  const auto* const gelu = typeid(activation) == typeid(GeluLayer) ? static_cast<GeluLayer*>(&activation) : nullptr;
  if (product == nullptr || gelu == nullptr || !product->bias.defined() || !kernels::TakesBiasGelu(x))
    return activation.forward(linear.forward(x));
  return kernels::BiasGeluWithGradient(at::linear(x, product->weight), product->bias,
                                       gelu->options.approximate() == "tanh");
}

at::Tensor GatedActivation(Layer& activation, const at::Tensor& gate, const at::Tensor& up) {
  if (typeid(activation) == typeid(SiluLayer) && kernels::TakesSwiGlu(gate, up))
    return kernels::SwiGluWithGradient(gate, up);
  return activation.forward(gate) * up;
}

at::Tensor CrossEntropyOfRows(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index) {
  if (kernels::TakesCpuCrossEntropy(logits, targets)) return kernels::CpuCrossEntropy(logits, targets, ignore_index);
  return at::cross_entropy_loss(logits.to(at::kFloat), targets, {}, at::Reduction::None, ignore_index);
}

at::Tensor MeanCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index) {
  if (!kernels::TakesCpuCrossEntropy(logits, targets))
    return at::cross_entropy_loss(logits, targets, {}, at::Reduction::Mean, ignore_index);
  return kernels::CpuCrossEntropy(logits, targets, ignore_index).sum() / targets.ne(ignore_index).sum();
}

}  // namespace composer
