// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/ema_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status CheckInterval(absl::string_view field, const Time& time) {
  const bool counted = time.unit() == TimeUnit::kBatch || time.unit() == TimeUnit::kEpoch;
  if (counted && time.count() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", time.ToString(), ", allowed are batches (ba) or epochs (ep), more than 0"));
}

absl::Status CheckStart(const Time& start) {
  const bool is_share = start.unit() == TimeUnit::kDuration;
  if (start.value() >= 0 && (!is_share || start.value() <= 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ema_start: ", start.ToString(), ", must not be negative", is_share ? " nor more than 1dur" : ""));
}

}  // namespace

absl::StatusOr<EmaOptions> ResolveEma(const EmaArguments& arguments) {
  if (arguments.half_life && arguments.smoothing) {
    return absl::InvalidArgumentError(absl::StrCat("smoothing: ", *arguments.smoothing, " and half_life: ",
                                                   arguments.half_life->ToString(), "; give one of the two"));
  }
  EmaOptions options;
  options.ema_start = arguments.ema_start;
  RETURN_IF_ERROR(CheckStart(options.ema_start));
  const Time half_life = arguments.half_life.value_or(Time::Batches(1000));
  RETURN_IF_ERROR(CheckInterval("half_life", half_life));
  options.update_interval = Time(1, half_life.unit());
  options.update_interval = arguments.update_interval.value_or(options.update_interval);
  RETURN_IF_ERROR(CheckInterval("update_interval", options.update_interval));
  if (arguments.smoothing) {
    options.smoothing = *arguments.smoothing;
    if (options.smoothing > 0 && options.smoothing < 1) return options;
    return absl::InvalidArgumentError(
        absl::StrCat("smoothing: ", options.smoothing, ", allowed are numbers between 0 and 1"));
  }
  if (half_life.unit() != options.update_interval.unit()) {
    return absl::InvalidArgumentError(absl::StrCat("update_interval: ", options.update_interval.ToString(),
                                                   " and half_life: ", half_life.ToString(),
                                                   "; both must be in batches or both in epochs"));
  }
  options.smoothing = std::exp2(-options.update_interval.value() / half_life.value());
  return options;
}

bool EmaIsDue(const Time& ema_start, const Timestamp& now, const Time& max_duration) {
  if (ema_start.unit() == TimeUnit::kDuration) return ElapsedFraction(now, max_duration) >= ema_start.value();
  return now.Get(ema_start.unit()) >= ema_start.count();
}

}  // namespace composer
