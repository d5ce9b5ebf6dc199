// SPDX-License-Identifier: Apache-2.0
#include "worker/job_callbacks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "trainer/callbacks/fail_at.h"
#include "trainer/loggers/json_lines.h"

namespace composer {
namespace {

constexpr absl::string_view kHowNames[] = {"kill", "abort", "exit", "throw", "hang"};

CallbackFactory ReadFailAt(ConfigMap config) {
  FailAt::Options options;
  options.rank = static_cast<int>(config.Int("rank", options.rank, {.min = 0}));
  options.batch = config.Int("batch", options.batch, {.min = 0});
  const std::string how = config.Choice("how", kHowNames, "kill");
  for (size_t i = 0; i < std::size(kHowNames); ++i) {
    if (how == kHowNames[i]) options.how = static_cast<FailAt::How>(i);
  }
  const bool every_generation = config.Bool("every_generation", false);
  options.armed = config.Choice("when", {"batch_end", "save"}, "batch_end") == "batch_end";
  return [=](const JobPlace& place) {
    FailAt::Options own = options;
    own.armed = options.armed && (every_generation || place.generation == 1);
    return std::make_unique<FailAt>(own);
  };
}

struct CallbackRow {
  const char* name;
  CallbackFactory (*read)(ConfigMap config);
};
constexpr CallbackRow kCallbacks[] = {
    {"fail_at", ReadFailAt},
};

}  // namespace

std::vector<CallbackFactory> ReadCallbacks(ConfigMap root) {
  std::vector<CallbackFactory> factories;
  std::vector<std::string> known;
  for (const CallbackRow& row : kCallbacks) known.emplace_back(row.name);
  for (const ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    const auto* row = std::find_if(std::begin(kCallbacks), std::end(kCallbacks), [&](const CallbackRow& r) { return entry.name == r.name; });
    if (row != std::end(kCallbacks)) {
      factories.push_back(row->read(entry.map));
    } else {
      root.Map("callbacks").Reject(entry.name, absl::StrCat("unknown callback", DidYouMean(entry.name, known)));
    }
  }
  return factories;
}

FatalWrite ReadFatalWrite(ConfigMap root) {
  ConfigMap config = root.Map("callbacks").Map("fail_at");
  if (config.Choice("when", {"batch_end", "save"}, "batch_end") != "save") return [](const JobPlace&) { return std::nullopt; };
  const int64_t rank = config.Int("rank", 0), batch = config.Int("batch", 1);
  return [=](const JobPlace& place) -> std::optional<std::string> {
    if (place.rank != rank || place.generation != 1) return std::nullopt;
    return absl::StrCat("-ba", batch, "/");
  };
}

LoggingOptions ReadLogging(ConfigMap root) {
  LoggingOptions logging;
  logging.progress_bar = root.Bool("progress_bar", true);
  logging.metrics_file = root.Bool("metrics_file", true);
  return logging;
}

absl::Status AddLoggers(const LoggingOptions& logging, const JobPlace& place, TrainerOptions& options) {
  if (place.rank != 0 || !logging.metrics_file) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto file, JsonLines::Open(JoinPath(options.run_folder, "metrics.jsonl")));
  options.loggers.push_back(std::move(file));
  return absl::OkStatus();
}

}  // namespace composer
