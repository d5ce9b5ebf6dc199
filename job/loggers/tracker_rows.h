// Experiment trackers among a job's loggers: cometml, mlflow, slack, wandb.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "trainer/loggers/record_file.h"
#include "trainer/loggers/tracker_logger.h"

namespace composer {

// A tracker as the job's file describes it.
struct TrackerPlan {
  std::string name;                              // "mlflow"
  std::map<std::string, std::string> settings;   // those that are empty are left to the environment
  std::map<std::string, std::string> variables;  // a setting, and the variable that may give it
  bool keeps_rewound_steps = false;
  TrackerLogger::Options logger;
};

// These read `loggers.NAME`.
TrackerPlan ReadComet(ConfigMap config);
TrackerPlan ReadMlflow(ConfigMap config);
TrackerPlan ReadSlack(ConfigMap config);
TrackerPlan ReadWandb(ConfigMap config);

// Makes rank 0's logger. Addresses and names that the file leaves out, and all keys and passwords, come from the
// environment; kInvalidArgument says which is missing. `origin` is JobPlace's, `in_haste` TrackerLogger's.
absl::StatusOr<std::unique_ptr<LoggerDestination>> MakeTracker(const TrackerPlan& plan, const std::string& run_name,
                                                               const std::string& run_folder,
                                                               const RecordOrigin& origin,
                                                               std::function<bool()> in_haste);

}  // namespace composer
