// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

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

// Samples of this launch for each second of it.
double SamplesPerSecond(const RunSummary& summary) {
  if (summary.generations.empty() || summary.wall_seconds <= 0) return 0;
  return static_cast<double>(summary.samples() - summary.generations.front().start_samples) / summary.wall_seconds;
}

// The names in the file are for programs.
absl::string_view EndInWords(absl::string_view reason) {
  if (reason == "preempted") return "stopped after a checkpoint";
  if (reason == "user_error") return "failed";
  if (reason == "budget_spent") return "gave up, no restart is left";
  return reason;
}

}  // namespace

int64_t RunSummary::steps() const {
  int64_t result = 0;
  for (const GenerationSummary& g : generations) result = std::max(result, g.end_step);
  return result;
}

int64_t RunSummary::samples() const {
  int64_t result = 0;
  for (const GenerationSummary& g : generations) result = std::max(result, g.end_samples);
  return result;
}

std::string ToJson(const RunSummary& summary) {
  Json json = {{"exit_reason", summary.exit_reason},
               {"exit_code", summary.exit_code},
               {"steps", summary.steps()},
               {"samples", summary.samples()},
               {"restarts", summary.restarts},
               {"wall_seconds", summary.wall_seconds},
               {"last_checkpoint", summary.last_checkpoint},
               {"run_name", summary.run_name},
               {"world_size", summary.world_size}};
  json["metrics"] = Json::object();
  for (const auto& [name, value] : summary.metrics) json["metrics"][name] = value;
  json["generations"] = Json::array();
  for (const GenerationSummary& g : summary.generations) json["generations"].push_back(ToJsonObject(g));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::Status WriteSummary(const RunSummary& summary) {
  return AtomicWriteFile(JoinPath(summary.run_folder, "summary.json"), ToJson(summary));
}

std::string DescribeRun(const RunSummary& summary) {
  std::string text = absl::StrFormat("%s: %d steps, %d samples (%.1f samples/s), %d restart%s, %.1f s%s\n",
                                     EndInWords(summary.exit_reason), summary.steps(), summary.samples(),
                                     SamplesPerSecond(summary), summary.restarts, summary.restarts == 1 ? "" : "s",
                                     summary.wall_seconds,
                                     summary.exit_reason == "preempted" ? "; run the same command again to continue" : "");
  for (const auto& [name, value] : summary.metrics) absl::StrAppendFormat(&text, "  %s = %.4g\n", name, value);
  if (!summary.last_checkpoint.empty()) absl::StrAppend(&text, "  last checkpoint: ", summary.last_checkpoint, "\n");
  absl::StrAppend(&text, "  run folder: ", summary.run_folder, "\n");
  return text;
}

}  // namespace composer
