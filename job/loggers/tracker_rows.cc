// SPDX-License-Identifier: Apache-2.0
#include "job/loggers/tracker_rows.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "job/plugin/job_time.h"
#include "net/curl_http.h"
#include "tracking/open_tracker.h"
#include "trainer/loggers/tracker_logger.h"

namespace composer {
namespace {

TrackerPlan ReadCommon(ConfigMap& config, const std::string& name, const std::string& shown) {
  TrackerPlan plan;
  plan.name = name, plan.logger.name = shown;
  plan.logger.interval = absl::Seconds(config.Int("logging_buffer_seconds", 2, {.min = 1, .max = 3600}));
  plan.logger.flush_timeout = absl::Seconds(config.Int("flush_seconds", 60, {.min = 0, .max = 86400}));
  plan.logger.hasty_flush_timeout = absl::Seconds(config.Int("preempted_flush_seconds", 15, {.min = 0, .max = 86400}));
  if (!config.Bool("rank_zero_only", true))
    config.Reject("rank_zero_only", "only rank 0 has the metrics of all ranks; leave it true");
  return plan;
}

// Reads tags, `NAME=VALUE` each.
void ReadTags(ConfigMap& config, std::map<std::string, std::string>& settings) {
  for (const std::string& tag : config.StringList("tags", {})) {
    const size_t equals = tag.find('=');
    if (equals == std::string::npos || equals == 0) {
      config.Reject("tags", absl::StrCat("`", tag, "` must be NAME=VALUE"));
      return;
    }
    settings[absl::StrCat("tags.", tag.substr(0, equals))] = tag.substr(equals + 1);
  }
}

std::string Words(ConfigMap& config, absl::string_view key, std::vector<std::string> fallback) {
  const std::vector<std::string> words = config.StringList(key, std::move(fallback));
  for (const std::string& word : words) {
    if (absl::StrContains(word, ",")) config.Reject(key, absl::StrCat("`", word, "` may not contain a comma"));
  }
  return absl::StrJoin(words, ",");
}

// For trackers that keep files: pictures and tables always, other files when the job asks for them.
void ReadFiles(ConfigMap& config, TrackerPlan& plan) {
  plan.logger.files = TrackerLogger::Files::kMedia;
  if (!config.Bool("log_artifacts", false)) return;
  plan.logger.files = TrackerLogger::Files::kAll;
  plan.settings["log_artifacts"] = "true";
}

}  // namespace

TrackerPlan ReadComet(ConfigMap config) {
  TrackerPlan plan = ReadCommon(config, "cometml", "CometMLLogger");
  for (const char* key : {"workspace", "project_name", "name"}) plan.settings[key] = config.String(key, "");
  plan.variables = {{"workspace", "COMET_WORKSPACE"}, {"project_name", "COMET_PROJECT_NAME"}};
  plan.settings["tags"] = Words(config, "tags", {});
  ReadFiles(config, plan);
  return plan;
}

TrackerPlan ReadMlflow(ConfigMap config) {
  TrackerPlan plan = ReadCommon(config, "mlflow", "MLFlowLogger");
  for (const char* key : {"tracking_uri", "experiment_name", "run_name"}) plan.settings[key] = config.String(key, "");
  plan.variables = {{"tracking_uri", "MLFLOW_TRACKING_URI"}, {"experiment_name", "MLFLOW_EXPERIMENT_NAME"}};
  plan.keeps_rewound_steps = config.Choice("rewound_steps", {"replace", "keep"}, "replace") == "keep";
  ReadTags(config, plan.settings);
  ReadFiles(config, plan);
  plan.settings["registered_model"] = config.String("registered_model", "");
  if (!plan.settings["registered_model"].empty() && plan.logger.files != TrackerLogger::Files::kAll)
    config.Reject("registered_model", "needs `log_artifacts: true`: what is registered is the checkpoint among them");
  return plan;
}

TrackerPlan ReadSlack(ConfigMap config) {
  TrackerPlan plan = ReadCommon(config, "slack", "SlackLogger");
  plan.keeps_rewound_steps = true;
  plan.settings["include_keys"] = Words(config, "include_keys", {});
  const std::vector<std::string> events = config.StringList("events", {"start", "restart", "end"});
  plan.settings["events"] = absl::StrJoin(events, ",");
  for (const std::string& event : events) {
    if (event != "start" && event != "restart" && event != "end")
      config.Reject("events", absl::StrCat("`", event, "` is not one of start, restart, end"));
  }
  const Time interval = ReadInterval(config, "log_interval", "1ba");
  plan.settings[interval.unit() == TimeUnit::kEpoch ? "every_epochs" : "every_batches"] =
      absl::StrCat(interval.count());
  plan.settings["max_logs_per_message"] = absl::StrCat(config.Int("max_logs_per_message", 50, {.min = 1, .max = 50}));
  return plan;
}

TrackerPlan ReadWandb(ConfigMap config) {
  TrackerPlan plan = ReadCommon(config, "wandb", "WandBLogger");
  for (const char* key : {"project", "entity", "group", "name"}) plan.settings[key] = config.String(key, "");
  plan.variables = {{"project", "WANDB_PROJECT"}, {"entity", "WANDB_ENTITY"}};
  plan.settings["tags"] = Words(config, "tags", {});
  ReadFiles(config, plan);
  return plan;
}

absl::StatusOr<std::unique_ptr<LoggerDestination>> MakeTracker(const TrackerPlan& plan, const std::string& run_name,
                                                               const std::string& run_folder,
                                                               const RecordOrigin& origin,
                                                               std::function<bool()> in_haste) {
  const Environment environment = Environment::FromProcess();
  TrackerOptions options;
  options.name = plan.name;
  options.run = {run_name, AbsolutePath(run_folder), static_cast<double>(absl::ToUnixSeconds(absl::Now())),
                 absl::StrCat(origin.launch, ".", origin.generation)};
  options.settings = plan.settings;
  for (const auto& [setting, variable] : plan.variables) {
    if (options.settings[setting].empty()) options.settings[setting] = environment.GetOr(variable, "");
  }
  options.keeps_rewound_steps = plan.keeps_rewound_steps;
  options.launch = origin.launch;
  auto given_up = std::make_shared<std::atomic<bool>>(false);
  auto tracker = OpenTracker(options, environment, std::make_shared<CurlHttp>(), given_up);
  if (!tracker.ok()) return Annotate(tracker.status(), absl::StrCat("loggers.", plan.name));
  TrackerLogger::Options own = plan.logger;
  own.run_folder = run_folder;
  own.in_haste = std::move(in_haste);
  return std::make_unique<TrackerLogger>(*std::move(tracker), std::move(given_up), own);
}

}  // namespace composer
