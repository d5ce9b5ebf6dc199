// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/save_thread.h"

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

SaveThread::Ticket SaveThread::Run(std::function<void()> job) {
  const absl::MutexLock lock(&mutex_);
  jobs_.push_back({++last_ticket_, std::move(job)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  return last_ticket_;
}

bool SaveThread::TakeBack(Ticket ticket) {
  const absl::MutexLock lock(&mutex_);
  return std::erase_if(jobs_, [ticket](const Job& job) { return job.ticket == ticket; }) > 0;
}

void SaveThread::Work() {
  pthread_setname_np(pthread_self(), "save");
  for (;;) {
    std::function<void()> job;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &SaveThread::HasNews));
      if (jobs_.empty()) return;
      job = std::move(jobs_.front().run);
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace composer
