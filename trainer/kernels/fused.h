// What models call: the operators of operators.h with their gradients. Each has a question before it, whether the
// tensors are such that a kernel of our own takes them; if not, the model computes as it would without kernels.
//
// Gradients are of the first order: backward with create_graph throws c10::ValueError that asks for `kernels: off`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace composer::kernels {

// Pure: returns why no norm kernel takes these, or "". See norm.cu.
std::string WhyNoNorm(at::ScalarType wide, at::ScalarType narrow, int64_t width);

struct NormWeights {
  at::Tensor weight, bias;  // bias: undefined for none
  double eps;
  bool centred;  // layer norm, else RMS norm
};
struct SumAndNorm {
  at::Tensor sum, y;
};
// Of x + branch, which is there too; without a branch (undefined), of x, and `sum` is x. y is of branch's type, or
// else of autocast's, if that is on.
bool TakesNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights);
SumAndNorm AddNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights);

// gelu(x + bias), x [.., width] and bias [width].
bool TakesBiasGelu(const at::Tensor& x);
at::Tensor BiasGeluWithGradient(const at::Tensor& x, const at::Tensor& bias, bool by_tanh);

// silu(gate) * up, of one shape and type.
bool TakesSwiGlu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor SwiGluWithGradient(const at::Tensor& gate, const at::Tensor& up);

// x [B, H, T, D], cos and sin [1 or B, 1, T, D], whose gradients are not computed.
bool TakesRotation(const at::Tensor& x, const at::Tensor& cos);
at::Tensor RotateWithGradient(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// The loss of each row, float32 [N]. Backward writes over `logits`, so nothing else may need them then, and it runs
// once; autograd finds an operator before that does.
bool TakesCrossEntropy(const at::Tensor& logits);
at::Tensor CrossEntropyWithGradient(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index);

}  // namespace composer::kernels
