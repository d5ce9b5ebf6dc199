// Runs a Tracker on a thread of its own: training never waits for a tracker, and a tracker never ends a run. While a
// server is away it is asked again after 1, 2, 4 … 60 seconds; what was not sent at the end waits for the next start of
// the run or for `composer sync`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tracking/tracker.h"

namespace composer {

class TrackerThread {
 public:
  // `given_up` is set when the end of the run waits no longer; the sink's requests watch it. `sync_advice` is appended
  // to the warning about what was not sent.
  TrackerThread(std::unique_ptr<Tracker> tracker, std::shared_ptr<std::atomic<bool>> given_up, absl::Duration interval,
                std::string sync_advice);
  ~TrackerThread();
  TrackerThread(const TrackerThread&) = delete;
  TrackerThread& operator=(const TrackerThread&) = delete;

  // Says that there is something to send, at the latest `interval` from now. Costs one store; never blocks.
  void Wake() { pending_.store(true, std::memory_order_relaxed); }
  void AddParameters(const std::vector<std::pair<std::string, std::string>>& parameters);
  // Sends what is left and ends the run there, for at most `patience`. Returns kDeadlineExceeded with what is missing
  // where. Called once.
  absl::Status Finish(const std::string& state, absl::Duration patience);

 private:
  void Run();
  // Sends all there is. Returns whether that worked.
  bool Drain();

  const std::shared_ptr<std::atomic<bool>> given_up_;
  const absl::Duration interval_;
  const std::string sync_advice_;
  std::atomic<bool> pending_{true};
  absl::Mutex mutex_;
  std::unique_ptr<Tracker> tracker_;  // of the thread, but for what the mutex guards
  std::vector<std::pair<std::string, std::string>> new_parameters_ ABSL_GUARDED_BY(mutex_);
  std::string end_state_ ABSL_GUARDED_BY(mutex_);  // not empty: finish
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool warned_ = false;  // of this outage
  std::thread thread_;   // the last: it uses the others
};

}  // namespace composer
