// Looks for life signs of other nodes' launchers when the rendezvous asks (proto::Probe), one after the other on a thread of
// its own, which begins with the first question.
// Threads: any.
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
  // With the time that a silent node may take to be noticed, less than 3 s.
  static constexpr absl::Duration kLimit = absl::Milliseconds(250);
  static constexpr size_t kMaxQuestions = 64;  // more are dropped: they are asked again

  // `answer` runs on the prober's thread.
  explicit Prober(std::function<void(const proto::Probed&)> answer) : answer_(std::move(answer)) {}
  // Waits for a probe under way.
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
