// What to tell a user whose step did not fit: what was asked for, who has the memory, and what to lower first.
// Pure, but for the two functions that ask who uses the memory. No tensors.
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
  std::string name;    // "": not known (another pid namespace, say)
  int64_t bytes = -1;  // -1: not known
};

// Bytes are 0 where they are not known.
struct OutOfMemoryFacts {
  std::string error;   // what the allocator said
  std::string device;  // "cuda:0", "cpu"
  int rank = 0;
  int64_t batch = 0;  // of the run, from 1
  bool in_evaluation = false;

  // Samples. microbatch 0: the whole rank batch.
  int64_t device_batch_size = 0;
  int64_t device_train_microbatch_size = 0;
  bool automatic = false;  // device_train_microbatch_size: auto

  int64_t total_bytes = 0, free_bytes = 0;      // of the device, or of the machine
  int64_t allocated_bytes = 0, peak_bytes = 0;  // by this process, in tensors; on a CPU resident memory
  int64_t reserved_bytes = 0;                   // by its caching allocator, tensors included
  int64_t own_pid = 0;
  std::vector<MemoryUser> users;  // of the device or the machine, largest first; this process may be among them
};

// "20.00 MiB" of "Tried to allocate 20.00 MiB" (the CUDA allocator), 1234 of "you tried to allocate 1234 bytes" (the CPU's).
// 0 when the text has neither.
int64_t RequestedBytes(absl::string_view error);

// The microbatch to try after `current` samples did not fit: half of it, rounded up; 0 when 1 did not fit.
int64_t SmallerMicrobatch(int64_t current);

// Several lines, without a newline at the end. The first says what happened, the second the numbers, then what to do,
// the likeliest first, then who else has memory there.
//
//   out of memory on cuda:0 (rank 0) in batch 12: 2.15 GB more were asked for
//     memory: 85.0 GB, 0.8 GB of it free; this process: 70.0 GB in tensors (peak 75.0 GB), 5.0 GB kept for reuse
//     lower device_train_microbatch_size first: 64 -> 32, or auto; the gradients stay the same
//     …
//     others there: python3 (pid 4711) 8.1 GB
std::string OutOfMemoryAdvice(const OutOfMemoryFacts& facts);

// GPU: the processes that compute on it; empty when the driver does not tell.
std::vector<MemoryUser> GpuMemoryUsers(const Nvml& nvml, int device);
// The machine's largest processes.
std::vector<MemoryUser> HostMemoryUsers(size_t limit);

}  // namespace composer
