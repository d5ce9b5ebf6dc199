// Writes what the schedules say into an optimizer's groups: learning rate and, with one_cycle_lr, momentum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "trainer/core/time.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/scheduler.h"

namespace composer {

// Before each step. Per group: lr = initial_lr * product of the factors; nothing without schedulers. `lagged`: where
// the schedules that lag in Composer are asked: `now` itself, or with composer_compat LaggedTimestamp.
// context.initial_lr is filled in here. Throws c10::ValueError as Scheduler::Factor.
void ApplySchedulers(const SchedulerList& schedulers, const Timestamp& now, const Timestamp& lagged,
                     const ScheduleContext& context, Optimizer& optimizer);

// Once before training: every schedule's Check for every group, and that a schedule which cycles momentum has one to
// cycle. kInvalidArgument.
absl::Status CheckSchedulers(const SchedulerList& schedulers, const ScheduleContext& context,
                             const Optimizer& optimizer);

}  // namespace composer
