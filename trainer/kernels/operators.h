// Operators of our own, in LibTorch's dispatcher as composer::…: each in one pass over memory where LibTorch's need
// several. Here are their names and a reference of LibTorch's operators, which runs wherever nothing better is
// registered: on a CPU, and on the mock accelerator. worker/cuda/kernels has them for CUDA; the worker registers those
// with `kernels: auto`, so that a model asks HasKernel whether they are there.
//
//   adamw_               AdamW of float32 parameters; writes bfloat16 copies of them too, if any are given
//   norm, norm_backward  sum = x + branch;  y = layer norm (centred) or RMS norm of sum, over the last dimension
//   bias_gelu            gelu(x + bias), by tanh or erf
//   swiglu               silu(gate) * up
//   rotate               x [B, H, T, D], cos and sin [1 or B, 1, T, D] -> halves a cos - b sin, b cos + a sin; `back`
//                        is the transpose, for backward
//   cross_entropy        of logits [N, V] and targets int64 [N]: loss and log-sum-exp, float32 [N]
//   cross_entropy_backward_  writes the gradient over the logits
//
// norm's types: x, sum and the weights of one, `wide`; branch and y of `narrow`; both float32, both bfloat16, or
// float32 and bfloat16. Its statistics and all sums are float32. RMS norm rounds x / rms to x's type before it is
// multiplied by the weight, as transformers does. swiglu rounds silu(gate) to its type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace composer::kernels {

// Whether the operators have kernels of their own for the tensor's device, so that calling them pays.
bool HasKernel(const at::Tensor& x);

// Calls of the operators, below autograd.
struct AdamWSettings {
  double lr, beta1, beta2, weight_decay, eps;
};
void AdamW(at::TensorList params, at::TensorList grads, at::TensorList exp_avgs, at::TensorList exp_avg_sqs,
           at::TensorList steps, const AdamWSettings& scalars, const std::optional<at::Tensor>& found_inf,
           at::TensorList copies);

struct NormResult {
  at::Tensor y, sum, mean, rstd;  // sum: undefined without a branch
};
NormResult Norm(const at::Tensor& x, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
                const std::optional<at::Tensor>& bias, double eps, bool centred, at::ScalarType narrow);
struct NormGradients {
  at::Tensor x, branch, weight, bias;  // branch: in `narrow`, undefined if that is x's type; bias: undefined without
};
NormGradients NormBackward(const at::Tensor& dy, const std::optional<at::Tensor>& dsum, const at::Tensor& sum,
                           const at::Tensor& weight, const at::Tensor& mean, const at::Tensor& rstd, bool centred,
                           bool has_bias);

at::Tensor BiasGelu(const at::Tensor& x, const at::Tensor& bias, bool by_tanh);
std::tuple<at::Tensor, at::Tensor> BiasGeluBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& bias,
                                                    bool by_tanh);
at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> SwiGluBackward(const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up);
at::Tensor Rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool back);
std::tuple<at::Tensor, at::Tensor> CrossEntropy(const at::Tensor& logits, const at::Tensor& targets,
                                                int64_t ignore_index);
void CrossEntropyBackward(at::Tensor& logits, const at::Tensor& targets, const at::Tensor& lse, const at::Tensor& dloss,
                          int64_t ignore_index);

}  // namespace composer::kernels
