// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/observe_metrics.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

bool HasNews(const Scheduler& scheduler, Event event, absl::string_view eval_label) {
  absl::string_view metric = scheduler.monitor();
  const bool of_evaluation = absl::ConsumePrefix(&metric, "metrics/") && !absl::StartsWith(metric, "train/");
  if (event == Event::kEvalEnd) {
    return of_evaluation && absl::ConsumePrefix(&metric, eval_label) && absl::StartsWith(metric, "/");
  }
  return !of_evaluation && event == (scheduler.observes_every_batch() ? Event::kBatchEnd : Event::kEpochEnd);
}

}  // namespace

void ObserveMetrics(const SchedulerList& schedulers, Event event, absl::string_view eval_label, const Logger& logger) {
  for (const auto& scheduler : schedulers) {
    if (scheduler->monitor().empty() || !HasNews(*scheduler, event, eval_label)) continue;
    const double value = logger.Last(scheduler->monitor());
    if (!std::isnan(value)) scheduler->Observe(value);
  }
}

}  // namespace composer
