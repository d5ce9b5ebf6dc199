// Writes what the schedules say into an optimizer's groups: learning rate and, with one_cycle_lr, momentum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "base/time.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/scheduler.h"

namespace composer {

// Before each step. Per group: lr = initial_lr * product of the factors; nothing without schedulers.
// `lagging`: composer_compat. Composer's Trainer steps a schedule of its own after a batch, but before it counts that
// batch: the step that starts at `now` has the factor of the step before, so the schedules that lag there
// (Scheduler::lags_in_composer) are asked at `lagging`, the start of the step before (of the run: its own start). And
// they are LambdaLRs, each of which overwrites the rates: only the last one counts.
// context.initial_lr is filled in here. Throws c10::ValueError as Scheduler::Factor.
void ApplySchedulers(const SchedulerList& schedulers, const Timestamp& now, const std::optional<Timestamp>& lagging,
                     const ScheduleContext& context, Optimizer& optimizer);

// Once before training: every schedule's Check for every group, and that a schedule which cycles momentum has one to
// cycle. kInvalidArgument.
absl::Status CheckSchedulers(const SchedulerList& schedulers, const ScheduleContext& context,
                             const Optimizer& optimizer);

}  // namespace composer
