// The earlier launches of a run, as recorded in its summary.json: each one, and all together. A launch that was killed
// together with its launcher appears as it was when its last generation began to train.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace composer {

struct LaunchSummary {
  int64_t launch = 1;       // counted from 1
  int64_t started = 0;      // Unix seconds; 0 if unknown
  double wall_seconds = 0;  // 0 if unknown
  std::string exit_reason;  // RunSummary's, or "lost" if nobody could write how it ended
  int64_t exit_code = 0;
  int64_t start_step = 0, end_step = 0;
  int64_t generations = 0, restarts = 0, recomputed_steps = 0;
};

struct LaunchTotals {
  int64_t launches = 0, generations = 0, restarts = 0, recomputed_steps = 0;
  double wall_seconds = 0;

  void Add(const LaunchSummary& launch);
};

struct RunHistory {
  static constexpr size_t kMaxLaunches = 100;

  std::vector<LaunchSummary> launches;  // the newest ones, oldest first
  LaunchTotals totals;                  // of all launches
};

// Parses hostile input: whatever cannot be understood counts as nothing. "" means that there were no launches.
RunHistory ParseHistory(absl::string_view summary_json);
// Reads `<run folder>/summary.json`; returns an empty history when it cannot be read.
RunHistory ReadHistory(const std::string& run_folder);

nlohmann::ordered_json ToJsonObject(const LaunchSummary& launch);
nlohmann::ordered_json ToJsonObject(const LaunchTotals& totals);

}  // namespace composer
