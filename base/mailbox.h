// Values from any thread to one event loop: Post wakes a poll on fd(), Take empties it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace composer {

template <typename T>
class Mailbox {
 public:
  Mailbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Mailbox() { close(fd_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // After Close it drops the value.
  void Post(T value) {
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) return;
      values_.push_back(std::move(value));
    }
    eventfd_write(fd_, 1);
  }

  std::vector<T> Take() {
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
    absl::MutexLock lock(&mutex_);
    return std::exchange(values_, {});
  }

  // Nobody takes any more: drops what is there and what comes.
  void Close() {
    std::vector<T> dropped;  // its destructors may do anything, without the lock
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    dropped.swap(values_);
  }

  int fd() const { return fd_; }

 private:
  const int fd_;
  absl::Mutex mutex_;
  std::vector<T> values_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace composer
