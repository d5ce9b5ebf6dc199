// Cross-entropy of class indices on a CPU for mixed precision: LibTorch casts the logits to float32, writes the
// logarithms of their softmax, the gradient, and its cast to bfloat16; this reads the logits twice and writes the
// gradient once, in their type.
//
//   loss  = log(sum(exp(x - max(x)))) - (x[target] - max(x))
//   dx[j] = (exp(x[j] - lse) - [j = target]) dloss,  lse = log(sum(exp(x)))
//
// Computed in float32, by AVX-512 or AVX2 where the processor has them; the same for every number of threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer::kernels {

// Whether the tensors are such that CpuCrossEntropy is for them: logits [N, V] of bfloat16 or float32 on a CPU, under
// autocast to bfloat16; targets int64 [N]. Without autocast LibTorch computes, so that a run in float32 has the same
// bits as on other devices.
bool TakesCpuCrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

// The loss of each row, float32 [N]; 0 where the target is `ignore_index`, as is that row's gradient. The logits are
// kept as they are. Throws c10::IndexError, as LibTorch, for another target that is not a class.
at::Tensor CpuCrossEntropy(const at::Tensor& logits, const at::Tensor& targets, int64_t ignore_index);

}  // namespace composer::kernels
