// How batches are loaded ahead of the step. Composer's DataLoader arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

struct PrefetchOptions {
  int num_workers = 0;      // threads; 0: batches are loaded when asked for, by the caller
  int prefetch_factor = 2;  // batches ahead a worker, >= 1
  // The longest wait for one batch; zero: for ever. Needs a worker: the caller's own thread can't be interrupted.
  absl::Duration timeout = absl::ZeroDuration();
  // Batches are copied into page-locked memory, from which a GPU copies without waiting.
  bool pin_memory = false;
};

}  // namespace composer
