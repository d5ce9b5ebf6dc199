// Reports where the time of the profiled batches went, in a few lines that need no viewer.
//
// Host: each instant of the training thread belongs to the innermost span around it: forward, backward, optimizer,
// communication (waiting for it), data wait, or algorithms and callbacks; gaps is the time outside all of them.
// Evaluation and checkpoints within the window are reported separately and not counted. The shares add up to 1.
// Collectives of CPU ranks run on their own thread: reported are how long they took, and how much of that overlapped
// with the training thread's work instead of making it wait.
// Device: busy is the union of its kernels and copies over all streams; exposed communication is the time in which only
// NCCL kernels ran. With a GPU the host's shares only show what the host launches, so the advice is based on the
// device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trainer/profiler/timeline.h"

namespace composer {

struct DeviceVerdict {
  int device = 0;
  double busy = 0;  // shares of the window
  double exposed_communication = 0;
};

struct OpTotal {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;  // excludes the operators it called
  uint64_t flops = 0;
};

struct ProfileVerdict {
  int64_t batches = 0;
  double seconds = 0;  // of the window, excluding evaluation and checkpoints
  double forward = 0, backward = 0, optimizer = 0, communication = 0, data_wait = 0, callbacks = 0, gaps = 0;  // shares
  double collective_seconds = 0;  // on their own threads
  double hidden_collectives = 0;  // the share of them that the training thread did not wait for
  double evaluation_seconds = 0, checkpoint_seconds = 0;
  std::vector<DeviceVerdict> devices;
  std::vector<OpTotal> host_ops, device_ops;  // the ten that took the longest
  std::vector<std::string> advice;            // communication above 20 %, data wait above 10 %
};

ProfileVerdict Judge(const Window& window);

// Returns a dozen lines; `title` is like "rank 0, ep0-ba5".
std::string VerdictText(const ProfileVerdict& verdict, const std::string& title);
// Returns one line for the log.
std::string VerdictLine(const ProfileVerdict& verdict);

}  // namespace composer
