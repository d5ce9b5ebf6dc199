// Tells the schedules that follow a metric when it has news.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/scheduler.h"

namespace composer {

// To be called after each evaluation of a training run (kEvalEnd, its label), and after the evaluations of a batch end
// (kBatchEnd) and of an epoch end (kEpochEnd), before a checkpoint is saved there.
//   metrics/<label>/…  has news at kEvalEnd of that label
//   everything else    at kEpochEnd, or kBatchEnd when the schedule is stepped every batch: the value last logged
// A value that was never logged, or is NaN, is no news.
void ObserveMetrics(const SchedulerList& schedulers, Event event, absl::string_view eval_label, const Logger& logger);

}  // namespace composer
