// LibTorch's own record of operators, kernels and allocations (Kineto; the wheel for CPUs has it, too), as plain data
// on our clock: Kineto's times are nanoseconds since 1970 already. On a machine without a GPU its first use prints one
// line about gpuGetDeviceCount on stderr, which cannot be turned off and means nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/profiler/timeline.h"

namespace composer {

// Threads: all calls from the training thread; operators of the autograd threads that work for it are recorded, too.
// One recording at a time in a process: Kineto is a singleton.
class OpTrace {
 public:
  struct Options {
    bool record_shapes = false;
    bool profile_memory = true;
    bool with_flops = true;  // of matrix products and convolutions
    bool any() const { return record_shapes || profile_memory || with_flops; }
  };

  explicit OpTrace(const Options& options) : options_(options) {}
  ~OpTrace();
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  // Lets Kineto (and CUPTI on a GPU) set itself up: up to a second the first time on a GPU. kInternal: it cannot.
  absl::Status Prepare();
  absl::Status Start();
  // Adds ops, cut to nest with the window's spans (operator_clip.h), memory and memory_at_begin to the window. Takes about 5 microseconds an event.
  absl::Status StopInto(Window& window);

 private:
  Options options_;
  bool is_prepared_ = false;
  bool is_running_ = false;
  std::vector<std::pair<int, int64_t>> memory_at_begin_;
};

}  // namespace composer
