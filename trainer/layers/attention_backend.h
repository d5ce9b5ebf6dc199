// Which of LibTorch's kernels compute attention on a GPU (Trainer: attention_backend). LibTorch has four, and tries
// them in an order until one takes the inputs: cuDNN's, FlashAttention 2, memory-efficient attention, and products of
// matrices with a softmax between them, which takes everything. All four have gradients. A name here permits the kernel
// and those behind it in this order, so that inputs which the named one does not take still have a kernel, and none
// that stands before it is ever used. kAuto leaves LibTorch its own order: on GPUs of compute capability 9 and 10
// cuDNN's first if cuDNN is newer than 9.15, as the one of the wheel is, else FlashAttention 2 first.
// Source: LibTorch 2.11, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, select_sdp_backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class AttentionBackend { kAuto, kCudnn, kFlash, kEfficient, kMath };

// Returns "auto", "cudnn", "flash", "efficient" or "math".
absl::string_view AttentionBackendName(AttentionBackend backend);

// What a run is, as far as kernels of attention depend on it.
struct AttentionRun {
  bool on_gpu = false;
  bool in_16_bits = false;  // autocast to float16 or bfloat16
  bool is_deterministic = false;
};

// Pure: returns the kernels that the run may use, the first choice first; empty: LibTorch's own order. An error names
// attention_backend, its value and what it needs: a GPU, 16 bits for cudnn and flash, and cudnn no deterministic_mode,
// since LibTorch has no deterministic backward pass of cuDNN's attention.
absl::StatusOr<std::vector<at::SDPBackend>> AttentionKernels(AttentionBackend backend, const AttentionRun& run);

// LibTorch keeps its choice of kernels for the whole process. An AttentionHold makes it the one of a backend; when the
// last hold ends, LibTorch has what it had before the first. Holds at the same time, those of ranks that are threads,
// must be of one backend.
// Threads: any. No attention may be computed while the first hold begins or the last one ends.
class AttentionHold {
 public:
  // Call it when CUDA is loaded and the thread's device is set. If `tells`, the first attention of a training step is
  // logged with its kernel, and why it is not the named one's. Returns FAILED_PRECONDITION when there is a hold of
  // another backend.
  static absl::StatusOr<std::unique_ptr<AttentionHold>> Take(AttentionBackend backend, bool tells);
  ~AttentionHold();
  AttentionHold(const AttentionHold&) = delete;
  AttentionHold& operator=(const AttentionHold&) = delete;

 private:
  AttentionHold() = default;
};

// Logs, once a hold that tells, the kernel that computed y [B, heads, T, D] for queries q. Does nothing without a hold,
// and for a y that needs no gradient.
void TellAttentionKernel(const at::Tensor& y, const at::Tensor& q, bool has_mask, double dropout);

}  // namespace composer
