// Callbacks and loggers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "trainer/core/callback.h"
#include "trainer/trainer_options.h"
#include "worker/plugin_registry.h"

namespace composer {

// Which rank of which generation is about to run the job, and on what terminal.
struct JobPlace {
  int rank = 0;
  int64_t generation = 1;
  bool stderr_is_terminal = false;
  int terminal_columns = 80;
};

using CallbackFactory = std::function<std::unique_ptr<Callback>(const JobPlace&)>;

// root.callbacks: {speed_monitor: {window_size: 50}, lr_monitor: , …}. Errors go to the reader.
std::vector<CallbackFactory> ReadCallbacks(ConfigMap root, const PluginTables& plugins);
// The built-in ones.
std::vector<std::string> CallbackNames();

// callbacks.fail_at with `when: save`: the part of a checkpoint file's path whose writing is to kill this process; nullopt: none.
using FatalWrite = std::function<std::optional<std::string>(const JobPlace&)>;
FatalWrite ReadFatalWrite(ConfigMap root);

struct LoggingOptions {
  bool progress_bar = true;
  bool metrics_file = true;
};
LoggingOptions ReadLogging(ConfigMap root);

// Rank 0's destinations: run_folder/metrics.jsonl and the progress bar.
absl::Status AddLoggers(const LoggingOptions& logging, const JobPlace& place, TrainerOptions& options);

}  // namespace composer
