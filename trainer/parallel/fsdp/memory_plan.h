// The memory plan gives the maximum memory of a rank's tensors in a training step, before the first step. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace composer {

// Bytes that follow from the shapes of the model and the optimizer.
struct PlannedMemory {
  int64_t parameters = 0, gradients = 0, optimizer = 0;  // of this rank, permanent
  int64_t buffers = 0;       // for whole units and reduce-scatters, the maximum in use at once
  int64_t partial_sums = 0;  // `determinism: elastic`: further copies of the gradients
  int64_t one_gradient = 0;  // one gradient from autograd on its way into a buffer
  // With cpu_offload, parameters to optimizer and partial_sums are not on the device.
  bool state_on_host = false;

  int64_t state() const { return parameters + gradients + optimizer + partial_sums; }
  int64_t total() const { return state() + buffers + one_gradient; }
};

// A PlannedStep is the result of a dry run of the step (trainer/memory_dry_run.h).
struct PlannedStep {
  int64_t peak = 0;              // total bytes on the device; 0: no dry run
  bool by_allocation = true;     // false: peak is less certain (memory/allocation_growth.h)
  int64_t batches = 0;           // the part for the rank's batch and those loaded ahead
  int64_t rows = 0, passes = 0;  // samples per microbatch; microbatches per step
  bool checkpoints = false;      // with activation_checkpointing
  int64_t peak_otherwise = 0;    // the peak with the opposite of `checkpoints`; 0: unknown
  std::string not_counted;       // why there was no dry run; "" if there was one
  bool has_dry_run() const { return peak > 0; }
};

// Returns the part of the peak besides the state, buffers and batches: what operations save for backward, outputs,
// gradients on their way, and memory that kernels take for themselves. 0 without a dry run.
int64_t ActivationBytes(const PlannedMemory& memory, const PlannedStep& step);
// Returns the best estimate of the bytes on the device and, with state_on_host, in host memory.
int64_t TotalBytes(const PlannedMemory& memory, const PlannedStep& step);

// Returns text such as "1.23 MB".
std::string Megabytes(int64_t bytes);
// Returns lines that begin with two spaces: "  memory of a rank: 3.00 MB = parameters 1.00 MB + …", what the
// activations consist of, and what activation checkpointing would change.
std::string MemoryText(const PlannedMemory& memory, const PlannedStep& step);

}  // namespace composer
