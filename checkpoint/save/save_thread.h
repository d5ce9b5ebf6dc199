// SaveThread writes checkpoints while training goes on: it runs one job after the other, in the order they came.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace composer {

// Thread-safe. Jobs must not throw.
class SaveThread {
 public:
  SaveThread() = default;
  ~SaveThread();  // waits for the last job
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  using Ticket = int64_t;
  Ticket Run(std::function<void()> job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes a job that has not begun, so that it never runs. Returns false if it has begun or ended.
  bool TakeBack(Ticket ticket) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    Ticket ticket;
    std::function<void()> run;
  };
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !jobs_.empty(); }

  absl::Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // started by the first job
};

}  // namespace composer
