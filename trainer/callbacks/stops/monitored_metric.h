// The metric that a stopper watches: when it has a new value, and which direction is better.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "trainer/core/event.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

enum class Better { kByName, kLess, kGreater };

// Returns whether the first value is better than the second. It must answer the same on every rank. Composer's `comp`.
using Comparison = std::function<bool(double candidate, double reference)>;

// Returns true for names that contain loss, error, perplexity (Composer's list) or entropy (missing there, so that
// CrossEntropy was expected to rise), in any case.
bool LessIsBetterByName(absl::string_view metric);

// Returns the full name of a metric of a loader, which Composer identifies by two names: ("MulticlassAccuracy", "eval")
// -> "metrics/eval/MulticlassAccuracy". When `monitor` is a full name already (it has a '/'), the label is ignored.
std::string MonitoredName(absl::string_view monitor, absl::string_view dataloader_label);

// Says when a metric that is not an evaluation's is checked.
enum class LookAt { kBatchEnd, kEpochEnd };

class MonitoredMetric {
 public:
  // name is that of any logged metric: "loss/train/total" or "metrics/eval/MulticlassAccuracy".
  // `compare` takes the place of `better`, unless it is empty.
  explicit MonitoredMetric(std::string name, Better better = Better::kByName, LookAt look_at = LookAt::kBatchEnd,
                           Comparison compare = nullptr);

  const std::string& name() const { return name_; }
  // Returns whether a is better than b by more than margin, in absolute terms with a Comparison (unless margin is 0:
  // then the Comparison alone decides). Every number is better than NaN.
  bool IsBetter(double a, double b, double margin) const;
  // Returns a new value, or nullopt when there is none. metrics/<label>/… have one at the end of each evaluation with
  // that label. Others have one at the end of each epoch, or at a batch end; at a batch end only when the value differs
  // from the last one seen (a metric that is not measured every batch keeps its value in between).
  std::optional<double> News(Event event, const State& state, const Logger& logger);
  bool ever_seen() const { return seen_; }

 private:
  std::string name_;
  bool less_is_better_;
  LookAt look_at_;
  Comparison compare_;
  bool of_evaluation_ = false;  // known to be an evaluation's: batches and epochs have no new value of it
  bool seen_ = false;
  double last_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace composer
