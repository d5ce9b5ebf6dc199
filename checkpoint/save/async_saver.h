// AsyncSaver saves while training goes on: Start copies the state into a buffer of this saver's own and returns; a
// SaveThread writes, syncs, commits and rotates, all ranks together (saver.h) over an exchange that nothing else uses.
// It makes one save at a time.
//
// Its outcome is kept until it is taken. It is the same on all ranks, but each rank may learn of it at another step of
// its training. Threads: all methods on one (the training's); the SaveThread writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "checkpoint/save/save_thread.h"
#include "checkpoint/save/saver.h"
#include "checkpoint/save/snapshot.h"

namespace composer {

struct SaveOutcome {
  CheckpointName step;
  absl::StatusOr<std::string> location;  // same as from Saver::Save
};

class AsyncSaver {
 public:
  // `store` must outlive this object. `pinned` is that of host_buffer.h.
  AsyncSaver(ObjectStore& store, RankExchange exchange, SaverOptions options, std::shared_ptr<SaveThread> thread,
             bool pinned = false);
  // Abandons a save in flight where it waits for other ranks (they may be gone), and waits for the rest of it; drops
  // one that has not begun because another saver's is running.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  // Requires that no save is in flight. With sharded tensors the first call also asks all ranks for their sizes. A
  // state that cannot be copied is an outcome like any other: all ranks learn of it.
  void Start(const StateDict& state, CheckpointName step, int64_t samples);

  // Returns whether a save was started whose outcome has not been taken.
  bool in_flight() const { return in_flight_; }
  // These return whether it has ended, and with an error. They cost one atomic load.
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }
  bool has_failed() const { return has_ended() && failed_.load(std::memory_order_relaxed); }
  // Waits until the save has ended or the time is up; returns false if it is still running, true when none is in
  // flight.
  bool WaitFor(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the save in flight and takes its outcome.
  SaveOutcome Take() ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t buffer_bytes() const { return snapshotter_.buffer_bytes(); }

 private:
  absl::Status TakeSnapshot(const StateDict& state);
  void SetOutcome(SaveOutcome outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasOutcome() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return outcome_.has_value(); }

  const std::shared_ptr<std::atomic<bool>> given_up_;
  Snapshotter snapshotter_;  // while in flight: used by the SaveThread
  Saver saver_;              // likewise
  bool in_flight_ = false;
  SaveThread::Ticket ticket_ = 0;  // of the save in flight
  std::atomic<bool> ended_{false};
  std::atomic<bool> failed_{false};
  absl::Mutex mutex_;
  std::optional<SaveOutcome> outcome_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<SaveThread> thread_;
};

}  // namespace composer
