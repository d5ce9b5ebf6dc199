// LoadTargets are the tensors, or boxes of them, that a load fills.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "checkpoint/folder/load_plan.h"

namespace composer {

// Host memory of any strides is written in place. Anything else (a GPU's) is assembled in host memory, from its first
// bytes to its last, then copied, and the host memory is freed. Threads: Add and Expect one at a time; afterwards Data
// and ChunkDone from any thread, ChunkDone once for each chunk.
class LoadTargets {
 public:
  // Adds all of the tensor, or its box at `offset`. `tensor` is an index into Manifest::tensors, of the same shape and
  // dtype.
  void Add(size_t tensor, const at::Tensor& data, absl::Span<const int64_t> offset = {});
  const std::vector<WantedBox>& wanted() const { return wanted_; }

  void Expect(const LoadPlan& plan);
  // Returns the address of the first byte of the wanted box.
  char* Data(size_t wanted);
  // Copies the chunk's bytes to where the plan says.
  void Copy(const LoadPlan& plan, const ChunkRead& chunk, absl::string_view bytes);
  // Must be called when all bytes of the chunk are in place.
  void ChunkDone(const LoadPlan& plan, const ChunkRead& chunk);

 private:
  struct Target {
    at::Tensor tensor;
    std::vector<int64_t> strides;  // bytes
    std::vector<int64_t> offset;
    char* data = nullptr;  // null until the staging memory exists
    bool staged = false;
    at::Tensor staging = {};
    std::atomic<int64_t> chunks_left = 0;
    std::mutex mutex = {};
  };

  std::deque<Target> targets_;
  std::vector<WantedBox> wanted_;
};

}  // namespace composer
