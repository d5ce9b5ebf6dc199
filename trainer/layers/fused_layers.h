// Neighbouring layers that one kernel computes where there is one (trainer/kernels/fused.h): on a GPU with
// `kernels: auto`. Where there is none, where surgery has put something else in a layer's place, or where something is
// around it, each layer runs by itself, as written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/kernels/fused.h"
#include "trainer/layers/layer.h"

namespace composer {

// A norm over the last dimension that a kernel may compute.
class NormLayer : public Layer {
 public:
  at::Tensor forward(const at::Tensor& x) final;
  virtual kernels::NormWeights norm_weights() const = 0;
  virtual at::Tensor WithoutKernel(const at::Tensor& x) = 0;
};

// Returns x + branch, and `norm` of that.
kernels::SumAndNorm AddNorm(Layer& norm, const at::Tensor& x, const at::Tensor& branch);

// Returns activation(linear(x)): one kernel adds the bias and applies GELU.
at::Tensor LinearActivation(Layer& linear, Layer& activation, const at::Tensor& x);

// Returns activation(gate) * up: one kernel for SiLU.
at::Tensor GatedActivation(Layer& activation, const at::Tensor& gate, const at::Tensor& up);

}  // namespace composer
