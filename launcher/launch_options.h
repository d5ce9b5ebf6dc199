// The launcher's flags.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "base/options.h"

namespace composer {

struct LaunchOptions {
  int nproc = 0;          // workers on this node; 0: not given (the job's, else one a GPU, else 1)
  int max_restarts = -1;  // -1: not given (the job's, else 3 for YAML jobs and 0 for programs)
  int master_port = 0;    // of the rendezvous; 0: any free one
  bool command = false;
  bool module = false;
  bool tee = false;
  bool verbose = false;
  bool explain = false;
  bool dry_run = false;
  bool version = false;
  bool help = false;

  std::vector<OptionValue> values;  // with origins, for --explain
  std::vector<std::string> words;   // the program and its arguments
};

// kInvalidArgument as ParseOptions.
absl::StatusOr<LaunchOptions> ParseLaunchOptions(const std::vector<std::string>& arguments,
                                                 const Environment& environment);

// The whole text of --help.
std::string LaunchHelp();

}  // namespace composer
