// Records what the allocators of tensors do: on a CPU and, through the same hook of c10, on a GPU (the caching allocator
// reports there, so that no CUDA library is needed at link time). What is kept of each allocation: address, size, the
// allocator's total, time, and what was going on: the operations of torch that were under way on that thread, and the
// phase of the step that the owner named.
//
// It sees the thread that started it and the backward passes begun on it. It sits where torch's profiler sits (c10 has one
// place for both): Start fails while a profiler records, and a profiler started meanwhile fails ("already enabled").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

struct AllocationEvent {
  enum class Kind { kAlloc, kFree, kOutOfMemory };
  Kind kind = Kind::kAlloc;
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t total_allocated = 0, total_reserved = 0;  // after it; 0 where the allocator does not count
  int64_t microseconds = 0;                         // unix time
  int device = -1;                                  // -1: a CPU
  // Innermost first: "aten::empty", "aten::addmm", "forward"; an index into AllocationHistory::stacks.
  int stack = 0;
};

struct AllocationHistory {
  std::vector<AllocationEvent> events;  // in order
  std::vector<std::vector<std::string>> stacks;
  int64_t dropped = 0;  // older ones, beyond max_entries
};

// Start, Stop and the destructor: on one thread. Costs about 0.3 us an allocation, 0.1 us an operation.
class AllocationRecorder {
 public:
  // Keeps the newest max_entries events.
  explicit AllocationRecorder(int64_t max_entries);
  ~AllocationRecorder();
  AllocationRecorder(const AllocationRecorder&) = delete;
  AllocationRecorder& operator=(const AllocationRecorder&) = delete;

  // kFailedPrecondition while a profiler records on this thread.
  absl::Status Start();
  void Stop();
  bool running() const { return running_; }
  // What is going on from here on: "forward". Must outlive the recorder (a literal).
  void SetPhase(const char* phase);
  AllocationHistory History() const;

 private:
  class Hook;
  std::shared_ptr<Hook> hook_;
  at::CallbackHandle operations_ = at::INVALID_CALLBACK_HANDLE;
  bool running_ = false;
};

}  // namespace composer
