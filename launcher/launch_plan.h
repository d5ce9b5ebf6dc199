// From flags, environment and the YAML file to what is started: the decisions of a launch, before any process exists.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "base/options.h"
#include "launcher/launch_options.h"
#include "launcher/program.h"

namespace composer {

struct LaunchPlan {
  bool job = false;        // a YAML job: has a run name and a run folder
  std::string name;        // of the job at the rendezvous: the run name, or one made up for a program
  std::string run_name;    // "" for programs
  std::string run_folder;  // absolute; "" for programs
  std::string config_hash;
  std::vector<std::string> argv;  // of every worker
  int nproc = 1;
  int max_restarts = 0;
  std::vector<OptionValue> values;  // with origins, for --explain
};

// Errors are the user's: a bad YAML file, no composer_worker.
absl::StatusOr<LaunchPlan> MakeLaunchPlan(const LaunchOptions& options, const Program& program,
                                          const Environment& environment);

// What --dry-run prints.
std::string DescribePlan(const LaunchPlan& plan);

}  // namespace composer
