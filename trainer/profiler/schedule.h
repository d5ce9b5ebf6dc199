// Decides which batches are profiled. A schedule is a pure function of the run's position.
//
// In each epoch, the cyclic schedule skips skip_first batches and then runs cycles of `wait` skipped, `warmup` recorded
// but discarded, and `active` recorded batches. There are `repeat` cycles; 0 means until the epoch ends. The last
// active batch of a cycle, or of the epoch if that comes first, also writes the trace.
// Source: mosaicml composer/profiler/profiler_schedule.py. There the batches done before a resumption are skipped in
// every later epoch, too; here only in the epoch that was resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"

namespace composer {

enum class ProfilerAction { kSkip, kWarmup, kActive, kActiveAndSave };

struct SchedulePosition {
  int64_t batch_in_epoch = 0;
  int64_t batches_per_epoch = 0;  // 0: unknown
  int64_t resumed_at = 0;         // batch_in_epoch at which this process entered this epoch
};

using ProfilerSchedule = std::function<ProfilerAction(const SchedulePosition&)>;

struct CyclicSchedule {
  int64_t skip_first = 0;
  int64_t wait = 0;
  int64_t warmup = 1;
  int64_t active = 4;
  int64_t repeat = 1;

  ProfilerAction operator()(const SchedulePosition& position) const;
  // Returns kInvalidArgument that names the field when one is negative or active is less than 1.
  absl::Status Validate() const;
};

// The batches that somebody asks for while a run goes on (`composer profile`), whatever the schedule says: one warm-up
// and four recorded ones, fewer where an epoch ends before. A request meanwhile is answered by these.
class AskedWindow {
 public:
  void Ask() { left_ = left_ > 0 ? left_ : kWarmup + kActive; }
  // Called once for each batch, before it. nullopt: nobody has asked, and the schedule decides.
  std::optional<ProfilerAction> Next(const SchedulePosition& position);

 private:
  static constexpr int kWarmup = 1, kActive = 4;
  int left_ = 0;
};

}  // namespace composer
