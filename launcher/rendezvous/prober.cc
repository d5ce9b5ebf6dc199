// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/prober.h"

#include <utility>

#include "rendezvous/liveness.h"

namespace composer {

Prober::~Prober() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Prober::Ask(const proto::Probe& probe) {
  absl::MutexLock lock(&mutex_);
  if (ending_ || questions_.size() >= kMaxQuestions) return;
  questions_.push_back(probe);
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

void Prober::Run() {
  while (true) {
    proto::Probe probe;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ending_ || !questions_.empty(); };
      mutex_.Await(absl::Condition(&due));
      if (ending_) return;
      probe = std::move(questions_.front());
      questions_.pop_front();
    }
    proto::Probed probed;
    probed.set_node_id(probe.node_id());
    probed.set_reached(SeesLife(probe.life(), kLimit));
    answer_(probed);
  }
}

}  // namespace composer
