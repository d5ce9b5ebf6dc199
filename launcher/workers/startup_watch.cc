// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/startup_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr double kCpuShare = 0.05;
constexpr absl::Duration kLeastCpu = absl::Milliseconds(200);
constexpr int64_t kLeastBytes = 1 << 20;
constexpr int64_t kBytesPerSecond = 16 << 10;
constexpr int kAttachStretch = 10;

struct StartWords {
  const char* doing;
  const char* name;  // in --startup-limits
};

StartWords StartWordsOf(StartupPhase phase) {
  switch (phase) {
    case StartupPhase::kSpawn:
      return {"being started", "attach"};
    case StartupPhase::kAttach:
      return {"attaching to its launcher", "attach"};
    case StartupPhase::kGroup:
      return {"forming the process group", "group"};
    case StartupPhase::kBuild:
      return {"building the model and the data", "build"};
    case StartupPhase::kLoad:
      return {"loading the checkpoint", "load"};
    case StartupPhase::kFirstStep:
    case StartupPhase::kOver:
      break;
  }
  return {"in its first step", "first_step"};
}

absl::Duration StartLimitOf(StartupPhase phase, const StartupLimits& limits) {
  switch (phase) {
    case StartupPhase::kSpawn:
    case StartupPhase::kAttach:
      return limits.attach;
    case StartupPhase::kGroup:
      return limits.group;
    case StartupPhase::kBuild:
      return limits.build;
    case StartupPhase::kLoad:
      return limits.load;
    case StartupPhase::kFirstStep:
      return limits.first_step;
    case StartupPhase::kOver:
      break;
  }
  return absl::InfiniteDuration();
}

std::string IdleSeconds(absl::Duration duration) { return absl::StrCat(absl::ToInt64Seconds(duration), "s"); }

Silence WithoutProgress(const StartupActivity& worker, absl::Time now, const StartupLimits& limits) {
  return {now - worker.last_progress, worker.waited, StartLimitOf(worker.phase, limits)};
}

// `granted`: beyond the limit, for one that is starved.
std::optional<Hang> JudgeStart(const StartupActivity& worker, absl::Time now, const StartupLimits& limits,
                               absl::Duration granted) {
  const absl::Duration limit = StartLimitOf(worker.phase, limits);
  const auto [doing, name] = StartWordsOf(worker.phase);
  const std::string option = absl::StrCat("--startup-limits ", name, "=", absl::ToInt64Seconds(limit));
  if (now - worker.last_progress > limit + granted) {
    return Hang{worker.rank, absl::StrCat("no progress for ", IdleSeconds(now - worker.last_progress), " while ", doing,
                                          " (", option, ")")};
  }
  if (worker.phase <= StartupPhase::kAttach && now - worker.since > limit * kAttachStretch) {
    return Hang{worker.rank, absl::StrCat("no heartbeat ", IdleSeconds(now - worker.since),
                                          " after its start, though busy (", kAttachStretch, " times ", option, ")")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Hang> FindStuckStart(const std::vector<StartupActivity>& workers, absl::Time now,
                                   const StartupLimits& limits, absl::Duration stopped) {
  StartupPhase earliest = StartupPhase::kOver;
  for (const StartupActivity& worker : workers) {
    if (worker.phase != StartupPhase::kOver && now - worker.stopped_since > stopped) {
      return Hang{worker.rank, absl::StrCat("stopped for ", IdleSeconds(now - worker.stopped_since), " while ",
                                            StartWordsOf(worker.phase).doing)};
    }
    earliest = std::min(earliest, worker.phase);
  }
  std::optional<Hang> longest;
  absl::Time since = absl::InfiniteFuture();
  absl::Duration granted;
  for (const StartupActivity& worker : workers) {
    if (worker.phase == earliest) granted = std::max(granted, WithoutProgress(worker, now, limits).granted());
  }
  for (const StartupActivity& worker : workers) {
    if (worker.phase != earliest || worker.last_progress >= since) continue;
    auto hang = JudgeStart(worker, now, limits, granted);
    if (!hang.has_value()) continue;
    longest = std::move(hang);
    since = worker.last_progress;
  }
  return longest;
}

std::string DescribeStarved(const StartupActivity& worker, absl::Time now, const StartupLimits& limits) {
  return DescribeStarved(worker.rank, "progress", WithoutProgress(worker, now, limits));
}

void StartupTracker::Observe(StartupPhase phase, const std::optional<ProcessWork>& work, absl::Time now) {
  const bool entered = phase != activity_.phase;
  if (entered) {
    activity_.phase = phase;
    activity_.since = activity_.last_progress = now;
    activity_.waited = absl::ZeroDuration();
  }
  if (!work.has_value()) return;
  activity_.stopped_since = !work->stopped ? absl::InfiniteFuture() : std::min(activity_.stopped_since, now);
  const absl::Duration idle = now - activity_.last_progress;
  const bool computed = work->cpu - mark_.cpu >= std::max(kLeastCpu, idle * kCpuShare);
  const bool moved = static_cast<double>(work->bytes - mark_.bytes) >=
                     std::max<double>(kLeastBytes, absl::ToDoubleSeconds(idle) * kBytesPerSecond);
  if (!entered && !computed && !moved) return;
  activity_.last_progress = now;
  activity_.waited = absl::ZeroDuration();
  mark_ = *work;
}

void StartupTracker::AddWait(absl::Duration waited, absl::Time now) {
  activity_.waited = std::min(activity_.waited + waited, now - activity_.last_progress);
}

void StartupTracker::Restart(absl::Time now) {
  activity_.since = activity_.last_progress = now;
  activity_.waited = absl::ZeroDuration();
  if (activity_.stopped_since != absl::InfiniteFuture()) activity_.stopped_since = now;
}

}  // namespace composer
