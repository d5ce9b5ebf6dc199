// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format/json.h"
#include "base/json_members.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxSummaryBytes = 16 << 20;
constexpr size_t kMaxReason = 200;

int64_t CountIn(const Json& json, const char* key) {
  uint64_t count = 0;
  TakeMember(json, key, count);
  return static_cast<int64_t>(std::min(count, uint64_t{1} << 53));
}

double SecondsIn(const Json& json, const char* key) {
  double seconds = 0;
  TakeMember(json, key, seconds);
  return std::isfinite(seconds) && seconds > 0 ? seconds : 0;
}

std::string TextIn(const Json& json, const char* key) {
  std::string text;
  TakeMember(json, key, text);
  return text.substr(0, kMaxReason);
}

LaunchSummary ParseLaunch(const Json& json) {
  return {.launch = std::max<int64_t>(1, CountIn(json, "launch")),
          .started = CountIn(json, "started"),
          .wall_seconds = SecondsIn(json, "wall_seconds"),
          .exit_reason = TextIn(json, "exit_reason"),
          .exit_code = CountIn(json, "exit_code"),
          .start_step = CountIn(json, "start_step"),
          .end_step = CountIn(json, "end_step"),
          .generations = CountIn(json, "generations"),
          .restarts = CountIn(json, "restarts"),
          .recomputed_steps = CountIn(json, "recomputed_steps")};
}

// Parses the launch that the summary itself describes.
LaunchSummary ParseNewest(const Json& json) {
  LaunchSummary newest = ParseLaunch(json);
  newest.end_step = CountIn(json, "steps");
  newest.generations = CountIn(json, "generations_left_out");
  if (newest.exit_reason == "running") newest.exit_reason = "lost";
  const auto generations = json.find("generations");
  if (generations == json.end() || !generations->is_array()) return newest;
  for (const Json& generation : *generations) {
    if (!generation.is_object()) continue;
    if (newest.generations++ == 0) newest.start_step = CountIn(generation, "start_step");
    newest.recomputed_steps += CountIn(generation, "recomputed_steps");
  }
  return newest;
}

LaunchTotals ParseTotals(const Json& json) {
  return {.launches = CountIn(json, "launches"),
          .generations = CountIn(json, "generations"),
          .restarts = CountIn(json, "restarts"),
          .recomputed_steps = CountIn(json, "recomputed_steps"),
          .wall_seconds = SecondsIn(json, "wall_seconds")};
}

}  // namespace

void LaunchTotals::Add(const LaunchSummary& launch) {
  ++launches;
  generations += launch.generations;
  restarts += launch.restarts;
  recomputed_steps += launch.recomputed_steps;
  wall_seconds += launch.wall_seconds;
}

RunHistory ParseHistory(absl::string_view summary_json) {
  RunHistory history;
  const Json json = ParseOrderedJson(summary_json);
  if (!json.is_object() || !json.contains("exit_reason")) return history;
  if (const auto earlier = json.find("earlier_launches"); earlier != json.end() && earlier->is_array()) {
    for (const Json& launch : *earlier) {
      if (launch.is_object()) history.launches.push_back(ParseLaunch(launch));
    }
  }
  history.launches.push_back(ParseNewest(json));
  if (const auto totals = json.find("all_launches"); totals != json.end() && totals->is_object()) {
    history.totals = ParseTotals(*totals);
  } else {
    history.totals.Add(history.launches.back());  // written by a version that kept no history
  }
  if (history.launches.size() > RunHistory::kMaxLaunches) {
    history.launches.erase(history.launches.begin(),
                           history.launches.end() - static_cast<std::ptrdiff_t>(RunHistory::kMaxLaunches));
  }
  return history;
}

RunHistory ReadHistory(const std::string& run_folder) {
  if (run_folder.empty()) return {};
  return ParseHistory(ReadFile(JoinPath(run_folder, "summary.json"), kMaxSummaryBytes).value_or(""));
}

Json ToJsonObject(const LaunchSummary& launch) {
  return {{"launch", launch.launch},
          {"started", launch.started},
          {"wall_seconds", launch.wall_seconds},
          {"exit_reason", launch.exit_reason},
          {"exit_code", launch.exit_code},
          {"start_step", launch.start_step},
          {"end_step", launch.end_step},
          {"generations", launch.generations},
          {"restarts", launch.restarts},
          {"recomputed_steps", launch.recomputed_steps}};
}

Json ToJsonObject(const LaunchTotals& totals) {
  return {{"launches", totals.launches},
          {"generations", totals.generations},
          {"restarts", totals.restarts},
          {"recomputed_steps", totals.recomputed_steps},
          {"wall_seconds", totals.wall_seconds}};
}

}  // namespace composer
