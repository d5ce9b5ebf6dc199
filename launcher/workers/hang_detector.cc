// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/hang_detector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace composer {
namespace {

std::string WholeSeconds(absl::Duration duration) { return absl::StrCat(absl::ToInt64Seconds(duration), "s"); }

constexpr int kMostPatience = 10;  // a silence lasts at most so many times its limit

Silence WithoutHeartbeat(const WorkerActivity& worker, absl::Time now, const HangLimits& limits) {
  return {now - worker.last_heartbeat, worker.waited_since_heartbeat, limits.no_heartbeat};
}

// Of a worker that trains.
Silence WithoutStep(const WorkerActivity& worker, absl::Time now, const HangLimits& limits) {
  return {now - worker.last_step, worker.waited_since_step,
          std::max(limits.no_step, worker.p99_step * limits.step_factor)};
}

std::string OfWhichWaited(const Silence& silence) {
  return silence.starved() ? absl::StrCat(", ", WholeSeconds(silence.waited), " of them waiting for a processor") : "";
}

// Returns what is granted to the starved among those for which a worker that has done `batch` steps may wait.
absl::Duration GrantedAt(int64_t batch, const std::vector<WorkerActivity>& workers, absl::Time now,
                         const HangLimits& limits) {
  absl::Duration most;
  for (const WorkerActivity& worker : workers) {
    if (worker.training && worker.batch <= batch) most = std::max(most, WithoutStep(worker, now, limits).granted());
  }
  return most;
}

}  // namespace

std::optional<Hang> FindHang(const std::vector<WorkerActivity>& workers, absl::Time now, const HangLimits& limits) {
  for (const WorkerActivity& worker : workers) {
    const Silence silence = WithoutHeartbeat(worker, now, limits);
    if (silence.lasted <= silence.limit + silence.granted()) continue;
    return Hang{worker.rank, absl::StrCat("no heartbeat for ", WholeSeconds(silence.lasted), OfWhichWaited(silence))};
  }
  std::optional<Hang> slowest;
  int64_t fewest = 0;
  for (const WorkerActivity& worker : workers) {
    if (!worker.training || (slowest.has_value() && worker.batch >= fewest)) continue;
    const Silence silence = WithoutStep(worker, now, limits);
    const absl::Duration limit = silence.limit + GrantedAt(worker.batch, workers, now, limits);
    if (silence.lasted <= limit) continue;
    slowest =
        Hang{worker.rank, absl::StrCat("no step for ", WholeSeconds(silence.lasted), " (limit ", WholeSeconds(limit),
                                       ")", OfWhichWaited(silence), " at step ", worker.batch)};
    fewest = worker.batch;
  }
  return slowest;
}

absl::Duration Silence::granted() const {
  return starved() ? std::min(waited, limit * (kMostPatience - 1)) : absl::ZeroDuration();
}

std::string DescribeStarved(int rank, const std::string& without, const Silence& silence) {
  if (!silence.starved() || silence.lasted <= silence.limit / 2) return "";
  return absl::StrCat("rank ", rank, " is starved: it has had no ", without, " for ", WholeSeconds(silence.lasted),
                      " and waited for a processor for ", WholeSeconds(silence.waited),
                      " of them, since other processes keep this machine busy; its limit of ",
                      WholeSeconds(silence.limit), " grows by its wait, to at most ",
                      WholeSeconds(silence.limit * kMostPatience));
}

std::string DescribeStarved(const WorkerActivity& worker, absl::Time now, const HangLimits& limits) {
  const std::string text = DescribeStarved(worker.rank, "heartbeat", WithoutHeartbeat(worker, now, limits));
  if (!text.empty() || !worker.training) return text;
  return DescribeStarved(worker.rank, "step", WithoutStep(worker, now, limits));
}

void ActivityTracker::Observe(const Observation& observation, absl::Time now) {
  if (observation.training && !activity_.training) {
    activity_.last_step = now;
    activity_.waited_since_step = absl::ZeroDuration();
    activity_.batch = observation.batch;
  }
  activity_.training = observation.training;
  if (observation.batch > activity_.batch) {
    AddStepTime((now - activity_.last_step - activity_.waited_since_step) / (observation.batch - activity_.batch));
    activity_.batch = observation.batch;
    activity_.last_step = now;
    activity_.waited_since_step = absl::ZeroDuration();
  }
  if (observation.heartbeat != heartbeat_) {
    heartbeat_ = observation.heartbeat;
    activity_.last_heartbeat = now;
    activity_.waited_since_heartbeat = absl::ZeroDuration();
  }
}

void ActivityTracker::AddWait(absl::Duration waited, absl::Time now) {
  activity_.waited_since_step = std::min(activity_.waited_since_step + waited, now - activity_.last_step);
  if (activity_.last_heartbeat == absl::InfiniteFuture()) return;
  activity_.waited_since_heartbeat =
      std::min(activity_.waited_since_heartbeat + waited, now - activity_.last_heartbeat);
}

void ActivityTracker::Restart(absl::Time now) {
  activity_.last_step = now;
  activity_.waited_since_step = activity_.waited_since_heartbeat = absl::ZeroDuration();
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
