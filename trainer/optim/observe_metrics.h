// Passes new values of a metric to the schedules that follow it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/scheduler.h"

namespace composer {

// Must be called after each evaluation of a training run (kEvalEnd, with its label), and after the evaluations at a
// batch's end (kBatchEnd) and an epoch's end (kEpochEnd), before a checkpoint is saved there.
//   metrics/<label>/…  are observed at kEvalEnd of that label
//   everything else    is observed at kEpochEnd, or at kBatchEnd when the schedule is stepped every batch: the value
//                      last logged
// A value that was never logged, or is NaN, is not observed.
void ObserveMetrics(const SchedulerList& schedulers, Event event, absl::string_view eval_label, const Logger& logger);

}  // namespace composer
