// These options say how batches are loaded ahead of the step. They are Composer's DataLoader arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/time/time.h"

namespace composer {

struct PrefetchOptions {
  int num_workers = 0;      // threads; 0: the caller loads each batch when it asks for it
  int prefetch_factor = 2;  // batches ahead per worker, >= 1
  // A wait for one batch takes at most this long; zero waits forever. Needs a worker, since the caller's own thread
  // cannot be interrupted.
  absl::Duration timeout = absl::ZeroDuration();
  // If true, batches are copied into page-locked memory, from which copies to a GPU do not block.
  bool pin_memory = false;
};

}  // namespace composer
