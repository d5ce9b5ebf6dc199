// What the launcher must know of a job's YAML: the job's name and where it writes. The worker reads the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "config/node.h"
#include "config/plugin_files.h"
#include "contract/startup_limits.h"

namespace composer {

struct JobIdentity {
  // Key `run_name`, else the variables COMPOSER_RUN_NAME, RUN_NAME, else the YAML file's name without its extension. At
  // most 200 bytes, no `/` or control characters, not "." or "..".
  std::string run_name;
  // Key `run_folder`, default "runs/{run_name}"; made absolute, with {run_name} replaced.
  std::string run_folder;
  int max_restarts = 3;          // key `max_restarts`, from 0
  StartupLimits startup_limits;  // key `startup_limits`: a map of phases to seconds
  int nproc = 0;                 // key `nproc`, from 1; 0: not given
  // Key `save_memory_interval` is given: launchers keep snapshots for their workers.
  bool peer_memory = false;
  std::vector<std::string> resume_changes;  // key `resume_changes`
  std::string config_hash;
  ConfigNode document;  // resolved
  PluginFacts plugins;
  // Every `path` (or `paths`) under train_dataloader and eval_dataloader: "train_dataloader.path" and its value.
  std::vector<std::pair<std::string, std::string>> data_paths;
};

// Ignores other keys (job_check.h checks them). Returns LoadConfig's errors; reports all bad values at once.
absl::StatusOr<JobIdentity> ReadJobIdentity(const std::string& yaml_path, const std::vector<std::string>& overrides,
                                            const Environment& env);

}  // namespace composer
