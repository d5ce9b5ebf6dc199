// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/hang_detector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace composer {
namespace {

std::string WholeSeconds(absl::Duration duration) { return absl::StrCat(absl::ToInt64Seconds(duration), "s"); }

std::optional<Hang> WithoutHeartbeat(const WorkerActivity& worker, absl::Time now, const HangLimits& limits) {
  const absl::Duration silent = now - worker.last_heartbeat;
  if (silent <= limits.no_heartbeat) return std::nullopt;
  return Hang{worker.rank, absl::StrCat("no heartbeat for ", WholeSeconds(silent))};
}

std::optional<Hang> WithoutStep(const WorkerActivity& worker, absl::Time now, const HangLimits& limits) {
  if (!worker.training) return std::nullopt;
  const absl::Duration limit = std::max(limits.no_step, worker.p99_step * limits.step_factor);
  const absl::Duration stuck = now - worker.last_step;
  if (stuck <= limit) return std::nullopt;
  return Hang{worker.rank, absl::StrCat("no step for ", WholeSeconds(stuck), " (limit ", WholeSeconds(limit),
                                        ") at step ", worker.batch)};
}

}  // namespace

std::optional<Hang> FindHang(const std::vector<WorkerActivity>& workers, absl::Time now, const HangLimits& limits) {
  for (const WorkerActivity& worker : workers) {
    if (auto hang = WithoutHeartbeat(worker, now, limits)) return hang;
  }
  std::optional<Hang> slowest;
  int64_t fewest = 0;
  for (const WorkerActivity& worker : workers) {
    auto hang = WithoutStep(worker, now, limits);
    if (!hang.has_value() || (slowest.has_value() && worker.batch >= fewest)) continue;
    slowest = std::move(hang);
    fewest = worker.batch;
  }
  return slowest;
}

void ActivityTracker::Observe(const Observation& observation, absl::Time now) {
  if (observation.training && !activity_.training) {
    activity_.last_step = now;
    activity_.batch = observation.batch;
  }
  activity_.training = observation.training;
  if (observation.batch > activity_.batch) {
    AddStepTime((now - activity_.last_step) / (observation.batch - activity_.batch));
    activity_.batch = observation.batch;
    activity_.last_step = now;
  }
  if (observation.heartbeat != heartbeat_) {
    heartbeat_ = observation.heartbeat;
    activity_.last_heartbeat = now;
  }
}

void ActivityTracker::Restart(absl::Time now) {
  activity_.last_step = now;
  if (activity_.last_heartbeat != absl::InfiniteFuture()) activity_.last_heartbeat = now;
}

void ActivityTracker::AddStepTime(absl::Duration step) {
  if (steps_.size() < kWindow) {
    steps_.push_back(step);
  } else {
    steps_[next_] = step;
    next_ = (next_ + 1) % kWindow;
  }
  std::vector<absl::Duration> sorted = steps_;
  const size_t index = (sorted.size() - 1) * 99 / 100;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(index), sorted.end());
  activity_.p99_step = sorted[index];
}

}  // namespace composer
