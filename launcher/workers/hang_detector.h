// Finds the worker that hangs. Pure; the supervisor feeds it what the progress pages and the heartbeats say.
//
// A worker that has done its first step must finish each further one within max(3 x its 99th percentile step time, 20
// s). One that has begun to send heartbeats must send another within 20 s, whatever its phase. When several are over a
// limit, the one without a heartbeat is named first (the others wait for it), then the one with the fewest steps, then
// the lowest rank.
//
// A worker that was runnable but had no processor for at least half of its silence is starved, not hung: its limit
// grows by the time that it waited, to at most ten times the limit, so that a hang on a crowded machine is found too.
// The limit of a step grows as well for those that have done as many steps as a starved one or more, since they may
// wait for it. Step times are counted without that wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "contract/startup_limits.h"

namespace composer {

struct HangLimits {
  absl::Duration no_step = absl::Seconds(20);
  absl::Duration no_heartbeat = absl::Seconds(20);
  double step_factor = 3;
  StartupLimits startup;  // until the first step is done, see startup_watch.h
};

struct WorkerActivity {
  int rank = 0;
  bool training = false;  // in phase TRAINING with its first step done
  int64_t batch = 0;
  absl::Time last_step;                                // when `batch` last grew or training began
  absl::Time last_heartbeat = absl::InfiniteFuture();  // InfiniteFuture if there was none yet, and then not judged here
  absl::Duration p99_step;                             // 0 if unknown
  absl::Duration waited_since_step;                    // for a processor (processor_wait.h), since last_step
  absl::Duration waited_since_heartbeat;
};

struct Hang {
  int rank = 0;
  std::string reason;  // "no heartbeat for 20s", "no step for 31s (limit 30s) at step 120"
};

std::optional<Hang> FindHang(const std::vector<WorkerActivity>& workers, absl::Time now, const HangLimits& limits);

// A silence, how much of it the worker waited for a processor, and the limit for it.
struct Silence {
  absl::Duration lasted, waited, limit;

  bool starved() const { return waited > absl::ZeroDuration() && waited >= lasted / 2; }
  absl::Duration granted() const;  // beyond the limit, since it is starved; else 0
};

// Returns a sentence without a full stop about a silence of more than half its limit in which a rank is starved, else
// "". `without`: "step".
std::string DescribeStarved(int rank, const std::string& without, const Silence& silence);
std::string DescribeStarved(const WorkerActivity& worker, absl::Time now, const HangLimits& limits);

// Follows one worker from observation to observation and keeps its recent step times.
class ActivityTracker {
 public:
  explicit ActivityTracker(int rank = 0) { activity_.rank = rank; }

  struct Observation {
    bool training = false;
    int64_t batch = 0;
    int64_t heartbeat = 0;  // any counter that grows while the worker lives; 0 before the first heartbeat
  };
  void Observe(const Observation& observation, absl::Time now);
  // Adds time for which it waited for a processor just before `now`; the silences that last count it.
  void AddWait(absl::Duration waited, absl::Time now);
  // Forgives the time until now, because the launcher itself was stopped.
  void Restart(absl::Time now);

  const WorkerActivity& activity() const { return activity_; }

 private:
  static constexpr size_t kWindow = 128;

  void AddStepTime(absl::Duration step);

  WorkerActivity activity_;
  int64_t heartbeat_ = 0;
  std::vector<absl::Duration> steps_;  // ring buffer of the last kWindow estimates
  size_t next_ = 0;
};

}  // namespace composer
