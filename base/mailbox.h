// Passes values from any thread to one event loop: Post wakes a poll on fd(), Take empties the mailbox.
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

  // Drops the value after Close.
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

  // Drops the present and all future values: nobody takes them any more.
  void Close() {
    std::vector<T> dropped;  // destroyed without the lock, since destructors may do anything
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
