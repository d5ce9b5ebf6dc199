// Polls the preemption sources in turn, from one thread, until each has given its notice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "launcher/platform/preemption_sources.h"

namespace composer {

class PreemptionWatch {
 public:
  struct Handlers {
    std::function<void(const Notice&)> on_notice;            // at most once for each source
    std::function<void(const std::string&)> on_unreachable;  // one line for people; at most once for each source
  };

  // Handlers run on the watch's thread and must not block.
  PreemptionWatch(std::vector<std::unique_ptr<PreemptionSource>> sources, Handlers handlers, Clock* clock);
  // Waits for a request in progress, two seconds at most.
  ~PreemptionWatch();

  // Reports a durable checkpoint to the sources that gave a notice. Must be called when the run is over. Errors are
  // reported to on_unreachable and change nothing.
  void Acknowledge();

 private:
  struct Watched {
    std::unique_ptr<PreemptionSource> source;
    absl::Time next;
    absl::Time failing_since = absl::InfiniteFuture();
    bool failure_told = false;
    bool noticed = false;
  };

  void Run();
  void Look(Watched& watched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_);
  absl::Time NextLook() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_);

  const Handlers handlers_;
  Clock* const clock_;
  absl::Mutex looking_;  // held while a source is asked
  std::vector<Watched> watched_ ABSL_GUARDED_BY(looking_);
  absl::Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace composer
