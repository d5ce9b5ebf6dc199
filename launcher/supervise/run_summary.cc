// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxGenerations = 200;

Json ToJsonObject(const GenerationSummary& g) {
  Json json = {{"generation", g.generation},
               {"start_step", g.start_step},
               {"start_checkpoint", g.start_checkpoint},
               {"end_step", g.end_step},
               {"recomputed_steps", g.recomputed_steps},
               {"cause", g.cause},
               {"first_step_seconds", nullptr},
               {"ended", g.ended},
               {"decision", g.decision},
               {"exits", Json::array()}};
  if (g.first_step_seconds.has_value()) json["first_step_seconds"] = *g.first_step_seconds;
  for (const GenerationSummary::Exit& exit : g.exits) {
    json["exits"].push_back({{"rank", exit.rank}, {"how", exit.how}, {"role", exit.role}});
  }
  return json;
}

// Returns the samples of this launch per second of it.
double SamplesPerSecond(const RunSummary& summary) {
  if (summary.generations.empty() || summary.wall_seconds <= 0) return 0;
  return static_cast<double>(summary.samples() - summary.generations.front().start_samples) / summary.wall_seconds;
}

// A generation that failed before it had loaded anything says nothing about the state.
const GenerationSummary* NewestLoaded(const std::vector<GenerationSummary>& generations) {
  for (auto it = generations.rbegin(); it != generations.rend(); ++it) {
    if (it->loaded || it->end_step > 0) return &*it;
  }
  return nullptr;
}

Json NewestGenerations(const std::vector<GenerationSummary>& generations) {
  Json list = Json::array();
  for (size_t i = generations.size() - std::min(generations.size(), kMaxGenerations); i < generations.size(); ++i) {
    list.push_back(ToJsonObject(generations[i]));
  }
  return list;
}

// The names in the file are meant for programs.
absl::string_view EndInWords(absl::string_view reason) {
  if (reason == "preempted") return "stopped after a checkpoint";
  if (reason == "user_error") return "failed";
  if (reason == "budget_spent") return "gave up, no restart is left";
  return reason;
}

}  // namespace

int64_t RunSummary::steps() const {
  const GenerationSummary* newest = NewestLoaded(generations);
  return newest == nullptr ? 0 : newest->end_step;
}

int64_t RunSummary::samples() const {
  const GenerationSummary* newest = NewestLoaded(generations);
  return newest == nullptr ? 0 : newest->end_samples;
}

LaunchTotals RunSummary::AllLaunches() const {
  LaunchSummary own;
  own.generations = static_cast<int64_t>(generations.size());
  own.restarts = restarts;
  own.wall_seconds = wall_seconds;
  for (const GenerationSummary& g : generations) own.recomputed_steps += g.recomputed_steps;
  LaunchTotals totals = history.totals;
  totals.Add(own);
  return totals;
}

std::string ToJson(const RunSummary& summary) {
  Json json = {{"exit_reason", summary.exit_reason},
               {"exit_code", summary.exit_code},
               {"steps", summary.steps()},
               {"samples", summary.samples()},
               {"launch", summary.launch()},
               {"started", summary.started},
               {"restarts", summary.restarts},
               {"wall_seconds", summary.wall_seconds},
               {"last_checkpoint", summary.last_checkpoint},
               {"last_checkpoint_step", summary.last_checkpoint_step},
               {"run_name", summary.run_name},
               {"world_size", summary.world_size}};
  json["metrics"] = Json::object();
  for (const auto& [name, value] : summary.metrics) json["metrics"][name] = value;
  if (summary.generations.size() > kMaxGenerations)
    json["generations_left_out"] = summary.generations.size() - kMaxGenerations;
  json["generations"] = NewestGenerations(summary.generations);
  json["all_launches"] = ToJsonObject(summary.AllLaunches());
  json["earlier_launches"] = Json::array();
  for (const LaunchSummary& launch : summary.history.launches) json["earlier_launches"].push_back(ToJsonObject(launch));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteSummary(const RunSummary& summary) {
  return AtomicWriteFile(JoinPath(summary.run_folder, "summary.json"), ToJson(summary));
}

std::string DescribeRun(const RunSummary& summary) {
  const bool idle = std::all_of(summary.generations.begin(), summary.generations.end(), [](const GenerationSummary& g) {
    return g.start_step > 0 && g.end_step == g.start_step;
  });
  if (summary.exit_reason == "done" && !summary.generations.empty() && idle)
    return absl::StrCat("done: no step was left to do, ", summary.steps(),
                        " were done before\n  run folder: ", summary.run_folder, "\n");
  std::string text = absl::StrFormat(
      "%s: %d steps, %d samples (%.1f samples/s), %d restart%s, %.1f s%s\n", EndInWords(summary.exit_reason),
      summary.steps(), summary.samples(), SamplesPerSecond(summary), summary.restarts, summary.restarts == 1 ? "" : "s",
      summary.wall_seconds, summary.exit_reason == "preempted" ? "; run the same command again to continue" : "");
  for (const auto& [name, value] : summary.metrics) absl::StrAppendFormat(&text, "  %s = %.4g\n", name, value);
  if (!summary.last_checkpoint.empty()) {
    const int64_t lost = summary.steps() - summary.last_checkpoint_step;
    const bool behind = lost > 0 && summary.last_checkpoint_step > 0;
    absl::StrAppend(&text, "  last checkpoint: ", summary.last_checkpoint,
                    behind ? absl::StrCat(" (of step ", summary.last_checkpoint_step, ")") : "", "\n");
  }
  if (const LaunchTotals all = summary.AllLaunches(); all.launches > 1) {
    absl::StrAppendFormat(&text, "  all %d launches: %d restart%s, %d steps done again, %.1f s\n", all.launches,
                          all.restarts, all.restarts == 1 ? "" : "s", all.recomputed_steps, all.wall_seconds);
  }
  absl::StrAppend(&text, "  run folder: ", summary.run_folder, "\n");
  return text;
}

}  // namespace composer
