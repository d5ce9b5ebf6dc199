// Attention on the mock: LibTorch's choice of a kernel, as on a GPU that has cuDNN's kernel and products of matrices,
// and references of cuDNN's and of the memory-efficient operator, forward and backward, on the mock's device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer::mock {

// How often the mock's kernels were called.
struct AttentionCalls {
  int cudnn = 0, cudnn_backward = 0, efficient = 0, efficient_backward = 0;
  bool operator==(const AttentionCalls&) const = default;
};

// Since the last call.
AttentionCalls TakeAttentionCalls();

// As in a process in which LibTorch has not been asked for a kernel: when it is, it puts cuDNN's first if it prefers
// it, as it does on GPUs of compute capability 9 and 10. The mock begins with one that does not.
void ForgetAttentionOrder(bool prefers_cudnn);

// A part of Install.
void InstallAttention();

}  // namespace composer::mock
