// A schedule is a pure function: where the run is -> factor on the initial learning rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/core/time.h"

namespace composer {

// What a schedule may depend on besides the time.
struct ScheduleContext {
  Time max_duration;              // not kDuration
  int64_t batches_per_epoch = 0;  // 0: not known
  double scale_schedule_ratio = 1;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // lr of the step that starts at `now` = initial_lr * Factor(now, context). (Composer lags one step; ours does not.)
  virtual double Factor(const Timestamp& now, const ScheduleContext& context) const = 0;
  // kInvalidArgument when the schedule cannot be computed in this run. To be asked once before training; Factor throws
  // c10::ValueError with the same message.
  virtual absl::Status Check(const ScheduleContext& context) const { return absl::OkStatus(); }
};

}  // namespace composer
