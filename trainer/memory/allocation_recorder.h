// AllocationRecorder records what the allocators of tensors do: on a CPU and, through the same hook of c10, on a GPU
// (the caching allocator reports there, so that no CUDA library is needed at link time). For each allocation it keeps
// address, size, the allocator's total, time, and the context: the operations of torch that were running on that
// thread, and the phase of the step that the owner set.
//
// It observes the thread that started it and the backward passes begun on it. It takes the place of torch's profiler
// (c10 has one for both): Start fails while a profiler records, and a profiler started meanwhile fails ("already
// enabled").
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
  int64_t total_allocated = 0, total_reserved = 0;  // after the event; 0 if the allocator does not count
  int64_t microseconds = 0;                         // since the Unix epoch
  int device = -1;                                  // -1: a CPU
  // Index into AllocationHistory::stacks, which are innermost first: "aten::empty", "aten::addmm", "forward".
  int stack = 0;
};

struct AllocationHistory {
  std::vector<AllocationEvent> events;  // in order
  std::vector<std::vector<std::string>> stacks;
  int64_t dropped = 0;  // older events, beyond max_entries
};

// Start, Stop and the destructor must be called on one thread. Costs about 0.3 us per allocation, 0.1 us per operation.
class AllocationRecorder {
 public:
  // Keeps the newest max_entries events.
  explicit AllocationRecorder(int64_t max_entries);
  ~AllocationRecorder();
  AllocationRecorder(const AllocationRecorder&) = delete;
  AllocationRecorder& operator=(const AllocationRecorder&) = delete;

  // Returns kFailedPrecondition while a profiler records on this thread.
  absl::Status Start();
  void Stop();
  bool running() const { return running_; }
  // Names the phase from here on, such as "forward". The name must outlive the recorder (a literal).
  void SetPhase(const char* phase);
  AllocationHistory History() const;

 private:
  class Hook;
  std::shared_ptr<Hook> hook_;
  at::CallbackHandle operations_ = at::INVALID_CALLBACK_HANDLE;
  bool running_ = false;
};

}  // namespace composer
