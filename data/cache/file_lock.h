// flock(2) on a file that exists only for it. The kernel frees it when its holder ends, however it ends; a new lock of
// the same process is a stranger to it. Movable; not thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace composer {

class FileLock {
 public:
  enum class Mode { kShared, kExclusive };

  // Creates the file if need be, and never deletes it. kUnavailable: another holds it. kUnimplemented names the folder
  // whose file system has no flock.
  static absl::StatusOr<FileLock> Try(const std::string& path, Mode mode);
  // Waits for it; kDeadlineExceeded after `patience`.
  static absl::StatusOr<FileLock> Wait(const std::string& path, Mode mode, absl::Duration patience, Clock& clock);

  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace composer
