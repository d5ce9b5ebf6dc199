// The subcommands of composer, one line each: their names for dispatch, --help, completion and "did you mean".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

struct SubcommandCall {
  std::vector<std::string> arguments;  // after the name
  Environment environment;
  std::string worker_path;  // composer_worker, beside this binary
};

struct Subcommand {
  std::string name;
  std::string usage;  // its arguments, for --help
  std::string help;
  // Runs it; returns the exit code. Empty: `run`, which is what happens without a subcommand.
  std::function<int(const SubcommandCall&)> run;
};

const std::vector<Subcommand>& Subcommands();
std::vector<std::string> SubcommandNames();

}  // namespace composer
