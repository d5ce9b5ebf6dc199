// HostBuffer is host memory that one save after another is copied into: allocated once and grown only when a save is
// larger than all before, so that neither page faults nor the pinning of pages are part of a later save. Threads: one
// at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace composer {

class HostBuffer {
 public:
  // Tensors begin at multiples of this.
  static constexpr int64_t kAlignment = 64;
  static constexpr int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // `pinned` asks for page-locked memory, which a GPU writes without the CPU's help. Needs a GPU.
  explicit HostBuffer(bool pinned = false) : pinned_(pinned) {}

  // Makes room for `bytes`; the old content is lost. Throws c10::Error when out of memory.
  void Reserve(int64_t bytes);
  int64_t capacity() const { return bytes_.defined() ? bytes_.numel() : 0; }

  // Returns the memory from `offset` on (a multiple of kAlignment) as a tensor of this type and shape; valid until the
  // next Reserve that grows the buffer.
  at::Tensor View(int64_t offset, at::ScalarType dtype, at::IntArrayRef shape) const;

 private:
  const bool pinned_;
  at::Tensor bytes_;
};

}  // namespace composer
