// Uploads files to a store in the background: at most `max_waiting` wait, each is tried again as `retry` says, and only
// the newest content of a key matters, so a waiting file is replaced by a newer one with its key. Two uploads of one
// key never overlap and are never reordered. Files are not read into memory, whatever their size.
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
#include "base/retry.h"
#include "storage/object_store.h"

namespace composer {

struct UploadQueueOptions {
  int threads = 1;  // simultaneous uploads
  RetryPolicy retry = {
      .base = absl::Seconds(2), .cap = absl::Minutes(1), .budget = absl::InfiniteDuration(), .max_tries = 3};
  size_t max_waiting = 1000;                      // files
  absl::Duration leave_limit = absl::Seconds(5);  // how long the destructor waits for an upload in flight
};

// Returns whether the same upload may succeed later: the store was busy, slow or away. A wrong name or credential stays
// wrong.
bool WorthRetrying(const absl::Status& status);

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
  class Impl;  // what the uploading threads share

  const std::unique_ptr<Impl> impl_;
  const absl::Duration leave_limit_;
  std::vector<std::thread> threads_;
};

}  // namespace composer
