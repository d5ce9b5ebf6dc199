// Layer norm and RMS norm for the matrix products of mixed precision on a CPU, with the sum before them: LibTorch's add
// casts the branch to float32, its norm writes float32, the product casts that to bfloat16, and backward casts all of
// it back. Here sum and result are written once, in their types, and so are the gradients.
//
//   sum = x + branch,  h = (sum - mean) rstd,  y = h weight + bias       (RMS norm: mean = 0, no bias)
//   g = dy weight,  dx = rstd (g - mean(g) - h mean(g h)) + dsum         (RMS norm: without mean(g))
//
// Computed in float32, by AVX-512 or AVX2 where the processor has them. The gradients of weight and bias are summed by
// blocks of rows, whose number depends on the rows alone, so that they are the same for every number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "trainer/kernels/fused.h"

namespace composer::kernels {

// Whether the tensors are such that CpuAddNorm is for them: x and the weights float32 on a CPU, under autocast to
// bfloat16; the branch bfloat16 or float32, or undefined.
bool TakesCpuNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights);

// As AddNorm of fused.h, with y in bfloat16, therefore for matrix products alone. LibTorch's operators compute a
// gradient of the gradient.
SumAndNorm CpuAddNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights);

}  // namespace composer::kernels
