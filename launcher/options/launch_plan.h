// Turns flags, environment and the YAML file into what is to be started: the decisions of a launch, before any process
// exists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "base/options.h"
#include "contract/startup_limits.h"
#include "launcher/options/launch_options.h"
#include "launcher/options/launch_shape.h"
#include "launcher/options/program.h"
#include "launcher/workers/output_plan.h"
#include "rendezvous/membership/membership.h"

namespace composer {

struct LaunchPlan {
  bool job = false;           // a YAML job, which has a run name and a run folder
  std::string name;           // of the job at the rendezvous
  std::string run_name;       // "" for programs
  std::string run_folder;     // absolute; "" for programs
  std::string job_file;       // the YAML file
  bool any_job_file = false;  // resume_changes permits continuing another file's run
  std::string config_hash;
  std::string plugin_hash;
  std::vector<std::pair<std::string, std::string>> data_paths;  // key in the YAML file, path
  std::vector<std::string> argv;                                // of every worker
  size_t first_argument = 0;  // first element of argv that is expanded with each rank's environment; 0 if none is
  bool peer_memory = false;   // keep snapshots of the training state in this node's memory
  LaunchShape shape;
  GrowPolicy grow = GrowPolicy::kNever;
  std::string node_group;  // "" if none
  int max_restarts = 0;
  StartupLimits startup_limits;
  OutputOptions output;
  std::string role;
  std::vector<OptionValue> values;  // with origins, for --explain
};

// Returns errors of the user's: a bad YAML file, an impossible shape, no composer_worker.
absl::StatusOr<LaunchPlan> MakeLaunchPlan(const LaunchOptions& options, const Program& program,
                                          const Environment& environment, const PlatformShape& platform = {});

// Returns what --dry-run prints.
std::string DescribePlan(const LaunchPlan& plan);

// Returns kInvalidArgument for a file name that FormatFileName refuses.
absl::StatusOr<OutputOptions> MakeOutputOptions(const LaunchOptions& options, const std::string& job, bool keeps_logs,
                                                const Environment& environment);

}  // namespace composer
