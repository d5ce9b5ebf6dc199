// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save_thread.h"

#include <pthread.h>

#include <utility>

namespace composer {

SaveThread::~SaveThread() {
  std::thread thread;
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void SaveThread::Run(std::function<void()> job) {
  const absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
}

void SaveThread::Work() {
  pthread_setname_np(pthread_self(), "save");
  for (;;) {
    std::function<void()> job;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &SaveThread::HasNews));
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace composer
