// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/stops/monitored_metric.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {

bool LessIsBetterByName(absl::string_view metric) {
  const std::string folded = absl::AsciiStrToLower(metric);
  for (const char* word : {"loss", "error", "perplexity", "entropy"}) {
    if (absl::StrContains(folded, word)) return true;
  }
  return false;
}

std::string MonitoredName(absl::string_view monitor, absl::string_view dataloader_label) {
  if (absl::StrContains(monitor, "/")) return std::string(monitor);
  return absl::StrCat("metrics/", dataloader_label, "/", monitor);
}

MonitoredMetric::MonitoredMetric(std::string name, Better better, LookAt look_at, Comparison compare)
    : name_(std::move(name)),
      less_is_better_(better == Better::kByName ? LessIsBetterByName(name_) : better == Better::kLess),
      look_at_(look_at),
      compare_(std::move(compare)) {}

bool MonitoredMetric::IsBetter(double a, double b, double margin) const {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
  if (compare_ != nullptr) return compare_(a, b) && (margin == 0 || std::abs(a - b) > margin);
  return less_is_better_ ? b - a > margin : a - b > margin;
}

std::optional<double> MonitoredMetric::News(Event event, const State& state, const Logger& logger) {
  const double value = logger.Last(name_);
  if (event == Event::kEvalEnd) {
    if (!absl::StartsWith(name_, absl::StrCat("metrics/", state.evaluation.label, "/"))) return std::nullopt;
    of_evaluation_ = true;
  } else {
    if (of_evaluation_ || event != (look_at_ == LookAt::kBatchEnd ? Event::kBatchEnd : Event::kEpochEnd))
      return std::nullopt;
    const bool unchanged = value == last_ || (std::isnan(value) && std::isnan(last_));
    if (unchanged && (event == Event::kBatchEnd || !seen_)) return std::nullopt;
  }
  last_ = value;
  seen_ = seen_ || !std::isnan(value);
  return value;
}

}  // namespace composer
