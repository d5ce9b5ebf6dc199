// GELU by tanh of bfloat16 on a CPU, in one pass each way: LibTorch's takes an eighth of a step of a small GPT, since
// it evaluates tanh to one unit in the last place of float32, of which bfloat16 keeps 8 bits.
//
//   u = sqrt(2/pi) (x + 0.044715 x^3),  s = 1 / (1 + exp(-2 u))          (tanh(u) = 2 s - 1)
//   y  = x s
//   dx = dy (s + 2 x s (1 - s) sqrt(2/pi) (1 + 0.134145 x^2))
//
// Computed in float32 and rounded to the nearest, so that values differ from LibTorch's in the last bit at most. By
// AVX-512 or AVX2 where the processor has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer::kernels {

// Whether x is such that the functions below are for it: bfloat16 on a CPU.
bool TakesCpuGelu(const at::Tensor& x);

// Of any shape and layout; with a gradient, also of the gradient, which LibTorch's operators then compute.
at::Tensor CpuGelu(const at::Tensor& x);

}  // namespace composer::kernels
