// The metric that a stopper watches: when it has news, and which way is better.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

enum class Better { kByName, kLess, kGreater };

// True for names with loss, error, perplexity (Composer's list) or entropy (missing there, so that CrossEntropy was to
// rise), in any case.
bool LessIsBetterByName(absl::string_view metric);

// The full name of what Composer calls by two: the metric of a loader. `monitor` may be a full name already (it has a
// '/'); then the label is not looked at. ("MulticlassAccuracy", "eval") -> "metrics/eval/MulticlassAccuracy".
std::string MonitoredName(absl::string_view monitor, absl::string_view dataloader_label);

// When a metric that is not an evaluation's is looked at.
enum class LookAt { kBatchEnd, kEpochEnd };

class MonitoredMetric {
 public:
  // name: any logged one, "loss/train/total" or "metrics/eval/MulticlassAccuracy".
  explicit MonitoredMetric(std::string name, Better better = Better::kByName, LookAt look_at = LookAt::kBatchEnd);

  const std::string& name() const { return name_; }
  // a is better than b by more than margin. Every number is better than NaN.
  bool IsBetter(double a, double b, double margin) const;
  // News: for metrics/<label>/…, at the end of each evaluation with that label; for others at the end of each epoch, or
  // at a batch end, then only when the value is not the last one seen (a metric that is measured every so many batches
  // stays as it is in between). nullopt: none.
  std::optional<double> News(Event event, const State& state, const Logger& logger);
  bool ever_seen() const { return seen_; }

 private:
  std::string name_;
  bool less_is_better_;
  LookAt look_at_;
  bool of_evaluation_ = false;  // it has been seen to be one's: batches and epochs have no news of it
  bool seen_ = false;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace composer
