// GELU by tanh on a CPU, in one pass each way: LibTorch's takes an eighth of a step of a small GPT in bfloat16, and 6 %
// of one in float32, since it evaluates tanh to one unit in the last place.
//
//   u = sqrt(2/pi) (x + 0.044715 x^3),  s = 1 / (1 + exp(-2 u))          (tanh(u) = 2 s - 1)
//   y  = x s
//   dx = dy (s + 2 x s (1 - s) sqrt(2/pi) (1 + 0.134145 x^2))
//
// Computed in float32 and rounded to the nearest: in bfloat16 values differ from LibTorch's in the last bit at most, in
// float32 by 3e-7 of x. By AVX-512 or AVX2 where the processor has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer::kernels {

// GELU by tanh of any tensor, of any shape and layout: by the kernel where TakesCpuGelu, else LibTorch's. With a
// gradient, also of the gradient, which LibTorch's operators then compute.
at::Tensor GeluByTanh(const at::Tensor& x);

// Whether x is such that the kernel is for it: float32 or bfloat16 on a CPU, and not while a trace is made.
bool TakesCpuGelu(const at::Tensor& x);

// The kernel below autograd, for tensors that TakesCpuGelu: y of x, and dx of dy and x.
at::Tensor CpuGeluForward(const at::Tensor& x);
at::Tensor CpuGeluBackward(const at::Tensor& dy, const at::Tensor& x);

}  // namespace composer::kernels
