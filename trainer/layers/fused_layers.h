// Neighbouring layers that one kernel computes where there is one: on a GPU with `kernels: auto`
// (trainer/kernels/fused.h), and on a CPU under autocast (trainer/kernels/cpu_norm.h, cpu_cross_entropy.h). Where there
// is none, where surgery has put something else in a layer's place, or where something is around it, each layer runs by
// itself, as written.
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

// Returns norm(x) for matrix products alone: in autocast's type, to which they would cast it, where a kernel does that.
at::Tensor NormForProducts(Layer& norm, const at::Tensor& x);

// Returns x + branch, and `norm` of that for matrix products alone.
kernels::SumAndNorm AddNorm(Layer& norm, const at::Tensor& x, const at::Tensor& branch);

// Returns norm(x + branch), which other sums may need too.
at::Tensor NormOfSum(Layer& norm, const at::Tensor& x, const at::Tensor& branch);

// Returns activation(linear(x)): one kernel adds the bias and applies GELU.
at::Tensor LinearActivation(Layer& linear, Layer& activation, const at::Tensor& x);

// Returns activation(gate) * up: one kernel for SiLU.
at::Tensor GatedActivation(Layer& activation, const at::Tensor& gate, const at::Tensor& up);

// Return torch's cross-entropy in float32 of logits [N, V] and targets int64 [N]: of each row, 0 for `ignore_index`;
// and the mean over the other rows. The logits stay as they are.
at::Tensor CrossEntropyOfRows(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index);
at::Tensor MeanCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index);

}  // namespace composer
