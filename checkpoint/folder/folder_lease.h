// FolderLease holds the lease of a folder of checkpoints (lease.h) for one launch: it takes it, renews it on a thread
// of its own, and says before each commit and each deletion whether it is still held.
//
// Its guarantee needs only a store that creates an object once (ObjectStore::PutIfAbsent) and lists what was written
// before: a launch that was taken over before it checked commits nothing and deletes nothing. A commit already in
// flight when the folder was taken over may still arrive: it is a whole checkpoint of its run, under a name that it
// alone creates, or it names an attempt that is gone, and is then refused by every reader and replaced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "checkpoint/folder/lease.h"
#include "storage/object_store.h"

namespace composer {

struct FolderLeaseOptions {
  Clock* clock = &RealClock::Get();
  absl::Duration look_interval = absl::Seconds(1);  // between two checks of a lease that another run holds
  bool renews = true;                               // on a thread; false: only when Renew is called
};

// Thread-safe.
class FolderLease {
 public:
  // Blocks while another run's holder may be dead, for at most kLeaseSilence, and logs it. Returns kFailedPrecondition
  // if the folder is another's (lease.h), or the store's error. `store` is the folder of checkpoints.
  static absl::StatusOr<std::unique_ptr<FolderLease>> Acquire(std::shared_ptr<ObjectStore> store, LeaseHolder me,
                                                              const FolderLeaseOptions& options = {});
  ~FolderLease();  // does not release it
  FolderLease(const FolderLease&) = delete;
  FolderLease& operator=(const FolderLease&) = delete;

  // Returns OK while the lease is held, FencedBy's answer once it is not, or the store's error if that cannot be
  // checked.
  absl::Status Check() ABSL_LOCKS_EXCLUDED(mutex_);
  // Rewrites the lease and deletes earlier ones. Returns what Check returns.
  absl::Status Renew() ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells others that they need not wait. Afterwards the lease is not renewed and Check fails. Writes nothing when the
  // lease is shared or lost, or the store did not answer recently; others then wait until the lease has been silent
  // long enough.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_, thread_mutex_);

 private:
  FolderLease(std::shared_ptr<ObjectStore> store, const FolderLeaseOptions& options, int64_t number, LeaseRecord record,
              bool shared);
  void Work() ABSL_LOCKS_EXCLUDED(mutex_, thread_mutex_);
  // Blocks until it is time to renew. Returns false when the thread is to end.
  bool WaitToRenew() ABSL_LOCKS_EXCLUDED(thread_mutex_);
  absl::Status CheckLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RenewLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<ObjectStore> store_;
  Clock& clock_;
  const int64_t number_;
  const bool shared_;  // another saver of this process renews and releases it
  absl::Mutex mutex_;
  LeaseRecord record_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  bool answers_ ABSL_GUARDED_BY(mutex_) = true;  // the last renewal succeeded
  bool there_ ABSL_GUARDED_BY(mutex_) = true;    // its object was in the last list
  absl::Mutex thread_mutex_;
  bool stop_ ABSL_GUARDED_BY(thread_mutex_) = false;
  bool renewing_ ABSL_GUARDED_BY(thread_mutex_) = false;
  std::thread thread_;
};

}  // namespace composer
