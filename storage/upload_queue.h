// Uploads files to a store in the background: at most `max_waiting` wait, each is tried `attempts` times, and only the
// newest content of a key matters, so a waiting file is replaced by a newer one with its key. Two uploads of one key
// never overlap and are never reordered. Files are not read into memory, whatever their size.
//
// Thread-safe. No exception leaves it.
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
  int threads = 1;                                // simultaneous uploads
  int attempts = 3;                               // per file, at least 1
  size_t max_waiting = 1000;                      // files
  absl::Duration first_delay = absl::Seconds(1);  // before the second attempt; doubles each time
  absl::Duration leave_limit = absl::Seconds(5);  // how long the destructor waits for an upload in flight
};

// Returns whether the same upload may succeed later: the store was busy, slow or away. A wrong name or credential stays
// wrong.
bool WorthRetrying(const absl::Status& status);
// Returns the delay before attempt number `next` (from 2): first_delay · 2^(next-2), at most a minute, plus up to half
// of it depending on `random` in [0, 1).
absl::Duration UploadDelay(int next, absl::Duration first_delay, double random);

class UploadQueue {
 public:
  UploadQueue(std::shared_ptr<ObjectStore> store, UploadQueueOptions options);
  // Drops what still waits; an upload in flight is finished, but not retried. When one takes longer than leave_limit (a
  // store that does not answer), gives the store up (ObjectStore::GiveUp), so nothing else may need it then. Returns
  // when the threads have ended.
  ~UploadQueue();

  // Takes ownership of the file `staged`, uploads it as `key`, then removes it. kResourceExhausted when too many files
  // wait: it is removed at once.
  absl::Status Add(std::string key, std::string staged);

  // Returns how many uploads failed for good since the last call, with the first one's reason; OK when none did.
  absl::Status TakeFailures();
  // Waits until nothing waits or is in flight; kDeadlineExceeded, with the names of those left, when that takes longer
  // than `timeout`.
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
