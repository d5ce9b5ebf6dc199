// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/schedule.h"

#include "absl/strings/str_cat.h"

namespace composer {

ProfilerAction CyclicSchedule::operator()(const SchedulePosition& position) const {
  const int64_t cycle = wait + warmup + active;
  const int64_t batch = position.batch_in_epoch - position.resumed_at - skip_first;
  if (batch < 0 || (repeat != 0 && batch >= cycle * repeat)) return ProfilerAction::kSkip;
  const int64_t at = batch % cycle;
  if (at < wait) return ProfilerAction::kSkip;
  if (at < wait + warmup) return ProfilerAction::kWarmup;
  const bool ends_epoch = position.batches_per_epoch > 0 && position.batch_in_epoch == position.batches_per_epoch - 1;
  return at == cycle - 1 || ends_epoch ? ProfilerAction::kActiveAndSave : ProfilerAction::kActive;
}

std::optional<ProfilerAction> AskedWindow::Next(const SchedulePosition& position) {
  if (left_ == 0) return std::nullopt;
  if (--left_ >= kActive) return ProfilerAction::kWarmup;
  const bool ends_epoch = position.batches_per_epoch > 0 && position.batch_in_epoch == position.batches_per_epoch - 1;
  if (left_ > 0 && !ends_epoch) return ProfilerAction::kActive;
  left_ = 0;
  return ProfilerAction::kActiveAndSave;
}

absl::Status CyclicSchedule::Validate() const {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
  } kFields[] = {{"skip_first", skip_first, 0},
                 {"wait", wait, 0},
                 {"warmup", warmup, 0},
                 {"active", active, 1},
                 {"repeat", repeat, 0}};
  for (const auto& field : kFields) {
    if (field.value < field.least)
      return absl::InvalidArgumentError(
          absl::StrCat("profiler.schedule.", field.name, ": ", field.value, ", must be at least ", field.least));
  }
  return absl::OkStatus();
}

}  // namespace composer
