// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/retention.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format/json.h"

namespace composer {

std::vector<CheckpointName> CheckpointsToDelete(std::vector<CheckpointName> committed, CheckpointName just_saved,
                                                int keep) {
  if (keep < 0) return {};
  std::erase_if(committed, [&](const CheckpointName& name) { return name >= just_saved; });
  std::sort(committed.begin(), committed.end());
  const size_t older_to_keep = static_cast<size_t>(std::max(keep, 1) - 1);
  committed.resize(committed.size() - std::min(committed.size(), older_to_keep));
  return committed;
}

std::string ScoreJson(absl::string_view monitor, double value) {
  return nlohmann::json{{"monitor", std::string(monitor)}, {"value", value}}.dump(
      -1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

double ScoreOf(const std::map<std::string, std::string>& small, absl::string_view monitor) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto found = small.find(kScoreKey);
  if (found == small.end()) return kNone;
  const auto json = ParseJson(found->second);
  if (!json.is_object() || !json.contains("monitor") || !json.contains("value")) return kNone;
  return json["monitor"] == std::string(monitor) && json["value"].is_number() ? json["value"].get<double>() : kNone;
}

std::vector<CheckpointName> CheckpointsWorseThanBest(std::vector<ScoredCheckpoint> committed, CheckpointName just_saved,
                                                     int keep, const KeepBest& best) {
  std::vector<CheckpointName> names;
  for (const ScoredCheckpoint& checkpoint : committed) names.push_back(checkpoint.name);
  std::vector<CheckpointName> old = CheckpointsToDelete(std::move(names), just_saved, std::max(keep, 1));
  std::erase_if(committed, [&](const ScoredCheckpoint& checkpoint) {
    return std::isnan(checkpoint.score) || checkpoint.name > just_saved;
  });
  std::sort(committed.begin(), committed.end(), [&](const ScoredCheckpoint& a, const ScoredCheckpoint& b) {
    if (a.score == b.score) return a.name < b.name;
    return best.less_is_better ? a.score < b.score : a.score > b.score;
  });
  committed.resize(std::min(committed.size(), static_cast<size_t>(best.count)));
  std::erase_if(old, [&](const CheckpointName& name) {
    return std::any_of(committed.begin(), committed.end(),
                       [&](const ScoredCheckpoint& checkpoint) { return checkpoint.name == name; });
  });
  return old;
}

}  // namespace composer
