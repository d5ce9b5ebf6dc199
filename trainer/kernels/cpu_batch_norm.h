// Batch norm of a CPU with what follows it in a residual network, a sum and ReLU, in one pass over memory each way for
// each block that fits into the cache. LibTorch's operators read and write all of it five times forward and as often
// backward, and its batch norm of float32 does not use vectors where it sums.
//
//   h = (x - mean) rstd,  z = h weight + bias + shortcut,  y = max(z, 0)     (each channel has its mean and rstd)
//   g = dy where y > 0,  dx = weight rstd (g - mean(g) - h mean(g h)),  dshortcut = g
//   running = (1 - momentum) running + momentum (mean; variance n / (n - 1))
//
// Computed in float32, with sums in float64 as LibTorch makes them, by AVX-512 or AVX2 where the processor has them.
// The order of sums depends on the shape and the layout alone: results are the same for every number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer::kernels {

struct BatchNormOf {
  at::Tensor weight, bias, running_mean, running_var;
  double momentum, eps;
  bool training;  // by the batch's statistics, of which the running ones learn; else by the running ones
};

// Whether the tensors are such that CpuBatchNorm is for them: x and the shortcut (undefined for none) of one shape and
// type, float32 or bfloat16, on a CPU, in rows of channels or in channels of rows; all of the norm float32 and there.
// Not for a gradient by running statistics, and not while a trace is made.
bool TakesCpuBatchNorm(const at::Tensor& x, const at::Tensor& shortcut, const BatchNormOf& norm);

// Returns y, or z without relu, of x's type and layout, and updates the running statistics. LibTorch's operators
// compute a gradient of the gradient.
at::Tensor CpuBatchNorm(const at::Tensor& x, const at::Tensor& shortcut, const BatchNormOf& norm, bool relu);

}  // namespace composer::kernels
