// The tensors, or boxes of them, that a load fills: where their bytes go.
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

// Host memory of any strides is written in place. Anything else (a GPU's) is put together in host memory, from its first
// bytes to its last, then copied, and the host memory given back.
// Threads: Add and Expect one at a time; then Data and ChunkDone from any thread, ChunkDone once for each chunk.
class LoadTargets {
 public:
  // All of the tensor, or its box at `offset`. `tensor`: index into Manifest::tensors, of the same shape and dtype.
  void Add(size_t tensor, const at::Tensor& data, absl::Span<const int64_t> offset = {});
  const std::vector<WantedBox>& wanted() const { return wanted_; }

  void Expect(const LoadPlan& plan);
  // The first byte of the wanted box.
  char* Data(size_t wanted);
  // Puts the chunk's bytes where the plan says.
  void Copy(const LoadPlan& plan, const ChunkRead& chunk, absl::string_view bytes);
  // All bytes of the chunk are where they belong.
  void ChunkDone(const LoadPlan& plan, const ChunkRead& chunk);

 private:
  struct Target {
    at::Tensor tensor;
    std::vector<int64_t> strides;  // bytes
    std::vector<int64_t> offset;
    char* data = nullptr;  // null until the staging memory is there
    bool staged = false;
    at::Tensor staging = {};
    std::atomic<int64_t> chunks_left = 0;
    std::mutex mutex = {};
  };

  std::deque<Target> targets_;
  std::vector<WantedBox> wanted_;
};

}  // namespace composer
