// Allows one launcher at a time in a run folder: flock on `<run folder>/.lock`, which also contains the owner's pid.
// The owner and the processes forked from it hold the lock, so after a SIGKILL it is free once the spawner has ended
// the workers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace composer {

class RunLock {
 public:
  // Creates the folder and takes the lock. Returns kFailedPrecondition, naming the pid, when another launcher runs
  // there. If that pid is already dead, the rest of its job is about to end: blocks up to `patience` for it.
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
