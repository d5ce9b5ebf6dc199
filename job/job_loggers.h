// Loggers by name, and the progress bar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"
#include "config/config_map.h"
#include "job/job_place.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/logger.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// Returns null when this rank has none of it.
using LoggerFactory =
    std::function<absl::StatusOr<std::unique_ptr<LoggerDestination>>(const JobPlace& place, const JobFacts& facts)>;

struct LoggingOptions {
  bool progress_bar = true;
  bool metrics_file = true;
  bool log_to_console = false;
  bool console_is_stdout = false;
  Time console_log_interval = Time::Batches(1);
  bool log_traces = false;
  bool auto_log_hparams = false;
  std::vector<LoggerFactory> loggers;
  Hyperparameters config;  // the whole resolved configuration, flat; the caller fills it in
};

// Reads root.{progress_bar, metrics_file, log_to_console, console_stream, console_log_interval, log_traces,
// auto_log_hparams} and root.loggers: {tensorboard: {…}, file_logger: {…}}. Errors go to the reader.
LoggingOptions ReadLogging(ConfigMap root, const PluginTables& plugins);
// Returns the names of the built-in loggers.
std::vector<std::string> LoggerNames();

// Adds rank 0's destinations (run_folder/metrics.jsonl, the console, the progress bar) and those of `loggers`, some of
// which every rank has. They receive the hyperparameters at INIT. Fails when metrics.jsonl cannot be opened, and with
// the errors of a plugin's factory.
absl::Status AddLoggers(const LoggingOptions& logging, const JobPlace& place, const JobFacts& facts,
                        TrainerOptions& options);

}  // namespace composer
