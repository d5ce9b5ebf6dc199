// What a rank's tensors take at most in a training step, said before the first one. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace composer {

// Bytes that follow from the model's and the optimizer's shapes.
struct PlannedMemory {
  int64_t parameters = 0, gradients = 0, optimizer = 0;  // this rank's, always there
  int64_t buffers = 0;                                   // for whole units and reduce-scatters, at most at once
  int64_t partial_sums = 0;                              // `determinism: elastic`: further copies of the gradients
  int64_t one_gradient = 0;                              // of autograd's, on its way into a buffer
  bool state_on_host = false;  // parameters to optimizer and partial_sums are not on the device (cpu_offload)

  int64_t state() const { return parameters + gradients + optimizer + partial_sums; }
  int64_t total() const { return state() + buffers + one_gradient; }
};

// What a dry run of the step (trainer/memory_dry_run.h) found.
struct PlannedStep {
  int64_t peak = 0;              // bytes on the device, all counted; 0: without a dry run
  bool by_allocation = true;     // false: peak is less certain (callbacks/allocation_growth.h)
  int64_t batches = 0;           // of these: the rank's batch, and those loaded ahead
  int64_t rows = 0, passes = 0;  // samples of a microbatch; microbatches of a step
  bool checkpoints = false;      // with activation_checkpointing
  int64_t peak_otherwise = 0;    // with it instead of without, or the other way round; 0: not known
  std::string not_counted;       // why there was no dry run; "" when there was
  bool has_dry_run() const { return peak > 0; }
};

// What is in the peak besides the state, buffers and batches: what operations save for backward, outputs, gradients on
// their way, and memory that kernels take for themselves. 0 when without a dry run.
int64_t ActivationBytes(const PlannedMemory& memory, const PlannedStep& step);
// On the device and, with state_on_host, in host memory: the best that is known.
int64_t TotalBytes(const PlannedMemory& memory, const PlannedStep& step);

// "1.23 MB".
std::string Megabytes(int64_t bytes);
// Lines that begin with two spaces: "  memory of a rank: 3.00 MB = parameters 1.00 MB + …", what the activations are of, and
// what activation checkpointing would change.
std::string MemoryText(const PlannedMemory& memory, const PlannedStep& step);

}  // namespace composer
