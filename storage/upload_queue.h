// Files on their way to a store, in the background: at most `max_waiting` wait, each is tried `attempts` times, and of a
// key only the newest content matters, so a file that still waits is replaced by a newer one of its key. Two uploads of
// one key never overlap and never swap. Files are not read into memory, whatever their size.
//
// Threads: every method may be called from any thread. No exception leaves it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "storage/object_store.h"

namespace composer {

struct UploadQueueOptions {
  int threads = 1;                                // uploads at the same time
  int attempts = 3;                               // of one file, at least 1
  size_t max_waiting = 1000;                      // files
  absl::Duration first_delay = absl::Seconds(1);  // before the second attempt; then twice as long each time
  absl::Duration leave_limit = absl::Seconds(5);  // that the end of the queue waits for an upload under way
};

// Whether the same upload may succeed later: the store was busy, slow or away. A wrong name or credential stays wrong.
bool WorthRetrying(const absl::Status& status);
// Before attempt number `next` (from 2): first_delay · 2^(next-2), at most a minute, plus up to half of it by `random`
// in [0, 1).
absl::Duration UploadDelay(int next, absl::Duration first_delay, double random);

class UploadQueue {
 public:
  UploadQueue(std::shared_ptr<ObjectStore> store, UploadQueueOptions options);
  // What still waits is dropped; an upload under way is finished, not tried again. When one takes longer than leave_limit
  // (a store that does not answer), the store is given up (ObjectStore::GiveUp): nothing else may need it then. Returns
  // when the threads have ended.
  ~UploadQueue();

  // Uploads the file `staged` as `key`, then removes it; from now on the file is the queue's. kResourceExhausted when too
  // many wait: it is removed at once.
  absl::Status Add(std::string key, std::string staged);

  // How many uploads failed for good since the last call, with the first one's reason; OK when none did.
  absl::Status TakeFailures();
  // Waits until nothing waits or is under way: kDeadlineExceeded with the names of those left, when that takes longer.
  absl::Status Flush(absl::Duration timeout);

 private:
  struct Upload {
    std::string key, staged;
  };
  class Line;  // what the uploading threads share

  const std::unique_ptr<Line> line_;
  const absl::Duration leave_limit_;
  std::vector<std::thread> threads_;
};

}  // namespace composer
