// Checks liveness of other nodes' launchers when the rendezvous asks (proto::Probe), one after another on a thread of
// its own, which starts with the first question. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace composer {

class Prober {
 public:
  // Together with the time until a silent node is noticed, this is less than 3 s.
  static constexpr absl::Duration kLimit = absl::Milliseconds(250);
  static constexpr size_t kMaxQuestions = 64;  // more are dropped, because they will be asked again

  // `answer` runs on the prober's thread.
  explicit Prober(std::function<void(const proto::Probed&)> answer) : answer_(std::move(answer)) {}
  // Waits for a probe in progress.
  ~Prober();

  void Ask(const proto::Probe& probe);

 private:
  void Run();

  const std::function<void(const proto::Probed&)> answer_;
  absl::Mutex mutex_;
  std::deque<proto::Probe> questions_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
