// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/fused_layers.h"

#include <ATen/ATen.h>

#include <typeinfo>
#include <variant>

#include "trainer/layers/torch_layers.h"

namespace composer {

at::Tensor NormLayer::forward(const at::Tensor& x) {
  const kernels::NormWeights weights = norm_weights();
  return kernels::TakesNorm(x, {}, weights) ? kernels::AddNorm(x, {}, weights).y : WithoutKernel(x);
}

kernels::SumAndNorm AddNorm(Layer& norm, const at::Tensor& x, const at::Tensor& branch) {
  if (const auto* layer = dynamic_cast<const NormLayer*>(&norm); layer != nullptr) {
    const kernels::NormWeights weights = layer->norm_weights();
    if (kernels::TakesNorm(x, branch, weights)) return kernels::AddNorm(x, branch, weights);
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

}  // namespace composer
