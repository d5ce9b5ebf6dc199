// Time as a dependency: decisions take `now` as an argument, the code around them takes a Clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace composer {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic within a process for users of RealClock: it never goes back.
  virtual absl::Time Now() const = 0;
  virtual void SleepFor(absl::Duration duration) = 0;
};

// The machine's steady clock, presented as wall time as of process start, so that a clock step cannot expire a lease.
class RealClock final : public Clock {
 public:
  static RealClock& Get();
  absl::Time Now() const override;
  void SleepFor(absl::Duration duration) override;
};

// A clock that moves only when it is advanced; SleepFor advances it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(absl::Time start = absl::UnixEpoch()) : now_(start) {}
  absl::Time Now() const override;
  void SleepFor(absl::Duration duration) override { Advance(duration); }
  void Advance(absl::Duration duration);

 private:
  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace composer
