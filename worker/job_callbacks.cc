// SPDX-License-Identifier: Apache-2.0
#include "worker/job_callbacks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/callbacks/early_stopper.h"
#include "trainer/callbacks/fail_at.h"
#include "trainer/callbacks/lr_monitor.h"
#include "trainer/callbacks/memory_monitor.h"
#include "trainer/callbacks/nan_monitor.h"
#include "trainer/callbacks/runtime_estimator.h"
#include "trainer/callbacks/sample_recorder.h"
#include "trainer/callbacks/speed_monitor.h"
#include "trainer/callbacks/threshold_stopper.h"
#include "trainer/callbacks/throttle.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/progress_bar.h"
#include "worker/job_time.h"
#include "worker/named_reader.h"

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

template <typename Made, typename Options>
CallbackFactory Fixed(const Options& options) {
  return [=](const JobPlace&) { return std::make_unique<Made>(options); };
}
template <typename Made>
CallbackFactory ReadPlain(ConfigMap config) {
  return [](const JobPlace&) { return std::make_unique<Made>(); };
}

CallbackFactory ReadSpeedMonitor(ConfigMap config) {
  SpeedMonitor::Options options;
  options.window_size = static_cast<int>(config.Int("window_size", options.window_size, {.min = 1, .max = 1 << 20}));
  return Fixed<SpeedMonitor>(options);
}

CallbackFactory ReadMemoryMonitor(ConfigMap config) {
  MemoryMonitor::Options options;
  options.interval = config.Int("interval", options.interval, {.min = 1});
  return Fixed<MemoryMonitor>(options);
}

CallbackFactory ReadRuntimeEstimator(ConfigMap config) {
  RuntimeEstimator::Options options;
  options.skip_batches = static_cast<int>(config.Int("skip_batches", options.skip_batches, {.min = 0, .max = 1 << 20}));
  return Fixed<RuntimeEstimator>(options);
}

Better ReadBetter(ConfigMap& config) {
  const std::string better = config.Choice("comp", {"auto", "less", "greater"}, "auto");
  return better == "auto" ? Better::kByName : better == "less" ? Better::kLess : Better::kGreater;
}

CallbackFactory ReadEarlyStopper(ConfigMap config) {
  EarlyStopper::Options options;
  options.monitor = config.String("monitor");
  options.better = ReadBetter(config);
  options.min_delta = config.Double("min_delta", options.min_delta, {.min = 0});
  options.patience = ReadTime(config, "patience", "1ep");
  return Fixed<EarlyStopper>(options);
}

CallbackFactory ReadThresholdStopper(ConfigMap config) {
  ThresholdStopper::Options options;
  options.monitor = config.String("monitor");
  options.threshold = config.RequiredDouble("threshold");
  options.better = ReadBetter(config);
  return Fixed<ThresholdStopper>(options);
}

CallbackFactory ReadThrottle(ConfigMap config) {
  Throttle::Options options;
  options.duration = absl::Seconds(config.Double("seconds", 0, {.min = 0, .max = 3600}));
  return Fixed<Throttle>(options);
}

struct CallbackRow {
  const char* name;
  CallbackFactory (*read)(ConfigMap config);
};
constexpr CallbackRow kCallbacks[] = {
    {"early_stopper", ReadEarlyStopper},
    {"fail_at", ReadFailAt},
    {"lr_monitor", ReadPlain<LRMonitor>},
    {"memory_monitor", ReadMemoryMonitor},
    {"nan_monitor", ReadPlain<NaNMonitor>},
    {"runtime_estimator", ReadRuntimeEstimator},
    {"sample_recorder", ReadPlain<SampleRecorder>},
    {"speed_monitor", ReadSpeedMonitor},
    {"threshold_stopper", ReadThresholdStopper},
    {"throttle", ReadThrottle},
};

}  // namespace

std::vector<std::string> CallbackNames() { return NamesOf(kCallbacks); }

std::vector<CallbackFactory> ReadCallbacks(ConfigMap root, const PluginTables& plugins) {
  std::vector<CallbackFactory> factories;
  for (const ConfigMap::Named& entry : root.NamedMaps("callbacks")) {
    const auto* row = std::find_if(std::begin(kCallbacks), std::end(kCallbacks),
                                   [&](const CallbackRow& r) { return entry.name == r.name; });
    if (row != std::end(kCallbacks)) {
      factories.push_back(row->read(entry.map));
    } else if (const auto plugin = plugins.callbacks.find(entry.name); plugin != plugins.callbacks.end()) {
      const PluginCallbackFactory make = ReadWithPlugin(entry.name, plugin->second, entry.map);
      factories.push_back([make](const JobPlace&) { return make(); });
    } else {
      root.Map("callbacks").Reject(entry.name, UnknownName(entry.name, CallbackNames(), plugins.callbacks));
      ConfigMap(entry.map).IgnoreRest();
    }
  }
  return factories;
}

FatalWrite ReadFatalWrite(ConfigMap root) {
  ConfigMap config = root.Map("callbacks").Map("fail_at");
  if (config.Choice("when", {"batch_end", "save"}, "batch_end") != "save")
    return [](const JobPlace&) { return std::nullopt; };
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
  if (place.rank != 0) return absl::OkStatus();
  if (logging.metrics_file) {
    ASSIGN_OR_RETURN(auto file, JsonLines::Open(JoinPath(options.run_folder, "metrics.jsonl")));
    options.loggers.push_back(std::move(file));
  }
  if (logging.progress_bar) {
    ProgressBar::Options bar;
    bar.in_place = place.stderr_is_terminal;
    bar.columns = place.terminal_columns;
    options.callbacks.push_back(std::make_unique<ProgressBar>(bar, RealClock::Get()));
  }
  return absl::OkStatus();
}

}  // namespace composer
