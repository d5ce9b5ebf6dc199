// A schedule is a pure function from the position in the run to a factor on the initial learning rate. The one
// exception follows a metric and has a small state (reduce_lr_on_plateau.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/time.h"

namespace composer {

// A ScheduleContext is what a schedule may depend on besides the time.
struct ScheduleContext {
  Time max_duration;              // not kDuration
  int64_t batches_per_epoch = 0;  // 0: unknown
  double scale_schedule_ratio = 1;
  double initial_lr = 1;  // of the parameter group in question, for schedules with absolute learning rates
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Returns the class name, such as "ReduceLROnPlateau". It is the key of the saved state.
  virtual std::string name() const { return "Scheduler"; }
  // The lr of the step that starts at `now` is initial_lr * Factor(now, context). (Composer lags one step; ours does
  // not.)
  virtual double Factor(const Timestamp& now, const ScheduleContext& context) const = 0;
  // Returns the momentum (beta1) of that step; nullopt leaves it unchanged.
  virtual std::optional<double> Momentum(const Timestamp& now, const ScheduleContext& context) const {
    return std::nullopt;
  }
  // Returns kInvalidArgument when the schedule cannot be computed in this run. Call it once before training; Factor
  // throws c10::ValueError with the same message.
  virtual absl::Status Check(const ScheduleContext& context) const { return absl::OkStatus(); }
  // Returns true when Composer's Trainer gives a step the factor of the step before (see ApplySchedulers).
  virtual bool lags_in_composer() const { return false; }

  // Makes the schedule step every batch, or every epoch (step_schedulers_every_batch). Returns false if it has no such
  // choice; nothing has changed then.
  virtual bool StepEveryBatch(bool every_batch) { return false; }

  // The rest is for schedules that follow a metric (observe_metrics.h calls them); all others keep no state. monitor is
  // the name under which the metric is logged, such as "loss/train/total"; "" if the schedule follows none.
  virtual absl::string_view monitor() const { return ""; }
  virtual bool observes_every_batch() const { return false; }  // else every epoch
  // Takes the metric's new value, a number, equal on all ranks.
  virtual void Observe(double value) {}
  // Returns one JSON value for the checkpoint, or "" when there is nothing to keep.
  virtual std::string SaveState() const { return ""; }
  virtual absl::Status LoadState(absl::string_view json) { return absl::OkStatus(); }
};

using SchedulerList = std::vector<std::unique_ptr<Scheduler>>;

// Returns the start of the epoch that `now` is in, where schedules that are stepped every epoch look. Pure.
Timestamp StartOfEpoch(const Timestamp& now);

}  // namespace composer
