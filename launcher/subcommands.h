// The subcommands of composer, one entry each: dispatch, --help, completion and "did you mean" are made from this
// table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/options.h"

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
  // Runs the subcommand, including `--help`, and returns the exit code. Empty for `run`, which is also the default.
  std::function<int(const SubcommandCall&)> run;
  std::vector<std::string> words = {};  // the first argument is one of these, for completion
  std::vector<std::string> flags = {};  // "--json", for completion
  bool takes_job = false;               // its argument is a running job
  bool changes_jobs = false;            // never suggested for a mistyped word
};

const std::vector<Subcommand>& Subcommands();
std::vector<std::string> SubcommandNames();

// Pure. Returns what to write instead of a first word that is neither a file nor a subcommand, starting with a space or
// a semicolon. Never suggests a command that changes a job. `next` is the YAML file that follows the word; "" if none.
std::string AdviceFor(const std::string& word, const std::string& next);

}  // namespace composer
