// Provides LibTorch's own record of operators, kernels and allocations (Kineto, which the CPU wheel also includes) as
// plain data on our clock: Kineto's times are already nanoseconds since 1970. On a machine without a GPU its first use
// prints one line about gpuGetDeviceCount on stderr, which cannot be turned off and is harmless.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/profiler/timeline.h"

namespace composer {

// All calls must come from the training thread; operators of the autograd threads that work for it are recorded, too. A
// process can have only one recording at a time, because Kineto is a singleton.
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

  // Lets Kineto (and CUPTI on a GPU) initialise: up to a second the first time on a GPU. Returns kInternal when it
  // cannot.
  absl::Status Prepare();
  absl::Status Start();
  // Adds ops, cut to nest with the window's spans (operator_clip.h), memory and memory_at_begin to the window. Takes
  // about 5 microseconds per event.
  absl::Status StopInto(Window& window);

 private:
  Options options_;
  bool is_prepared_ = false;
  bool is_running_ = false;
  std::vector<std::pair<int, int64_t>> memory_at_begin_;
};

}  // namespace composer
