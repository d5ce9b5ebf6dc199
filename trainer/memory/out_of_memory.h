// This composes advice for a user whose step did not fit: what was requested, who has the memory, and what to lower
// first. Pure, except for the two functions that ask who uses the memory. Uses no tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/nvml.h"

namespace composer {

struct MemoryUser {
  int64_t pid = 0;
  std::string name;    // "" if unknown (another pid namespace, say)
  int64_t bytes = -1;  // -1: unknown
};

// Bytes are 0 where they are unknown.
struct OutOfMemoryFacts {
  std::string error;   // the allocator's message
  std::string device;  // "cuda:0", "cpu"
  int rank = 0;
  int64_t batch = 0;  // of the run, from 1
  bool in_evaluation = false;

  // These are in samples. microbatch 0 is the whole rank batch.
  int64_t device_batch_size = 0;
  int64_t device_train_microbatch_size = 0;
  bool automatic = false;  // device_train_microbatch_size: auto

  int64_t total_bytes = 0, free_bytes = 0;      // of the device, or of the machine
  int64_t allocated_bytes = 0, peak_bytes = 0;  // by this process: in tensors, or on a CPU resident memory
  int64_t reserved_bytes = 0;                   // by this process's caching allocator, tensors included
  int64_t own_pid = 0;
  std::vector<MemoryUser> users;  // of the device or the machine, largest first, maybe including this process
};

// Returns 20 MiB for "Tried to allocate 20.00 MiB" (the CUDA allocator), 1234 for "you tried to allocate 1234 bytes"
// (the CPU's), 0 when the text has neither.
int64_t RequestedBytes(absl::string_view error);

// Returns the microbatch to try after `current` samples did not fit: half of it, rounded up; 0 when 1 did not fit.
int64_t SmallerMicrobatch(int64_t current);

// Returns several lines, without a newline at the end: first what happened, then the numbers, what to do, the likeliest
// first, and who else has memory there.
//
//   out of memory on cuda:0 (rank 0) in batch 12: 2.15 GB more were asked for
//     memory: 85.0 GB, 0.8 GB of it free; this process: 70.0 GB in tensors (peak 75.0 GB), 5.0 GB kept for reuse
//     lower device_train_microbatch_size first: 64 -> 32, or auto; the gradients stay the same
//     …
//     others there: python3 (pid 4711) 8.1 GB
std::string OutOfMemoryAdvice(const OutOfMemoryFacts& facts);

// Returns the processes that compute on the GPU; empty when the driver does not report them.
std::vector<MemoryUser> GpuMemoryUsers(const Nvml& nvml, int device);
// Returns the machine's largest processes.
std::vector<MemoryUser> HostMemoryUsers(size_t limit);

}  // namespace composer
