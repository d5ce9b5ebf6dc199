// One launcher at a time in a run folder: flock on `<run folder>/.lock`, which also holds the owner's pid. The lock goes
// with the owner and the processes forked from it, so after a SIGKILL it is free when the spawner has ended the workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

class RunLock {
 public:
  // Makes the folder. kFailedPrecondition, naming the pid: another launcher runs there. When that pid is dead already the
  // rest of its job is about to end: waits up to `patience` for it.
  static absl::StatusOr<std::unique_ptr<RunLock>> Take(const std::string& run_folder,
                                                       absl::Duration patience = absl::Seconds(2));
  ~RunLock();
  int fd() const { return fd_; }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  explicit RunLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace composer
