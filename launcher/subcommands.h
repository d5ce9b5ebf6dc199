// The subcommands of composer, one entry each: dispatch, --help, completion and "did you mean" are made from this table.
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
  // Runs it, `--help` included; returns the exit code. Empty: `run`, which is what happens without a subcommand.
  std::function<int(const SubcommandCall&)> run;
  std::vector<std::string> words = {};  // the first argument is one of them, for completion
  std::vector<std::string> flags = {};  // "--json", for completion
  bool takes_job = false;               // its argument is a running job
  bool changes_jobs = false;            // never guessed for a word that the user mistyped
};

const std::vector<Subcommand>& Subcommands();
std::vector<std::string> SubcommandNames();

// Pure. What to write instead of a first word that is neither a file nor a subcommand, with a blank before it; "" when
// nothing fits. Never advice that changes a job. `file`: the word after it, "": none.
std::string AdviceFor(const std::string& word, const std::string& next);

}  // namespace composer
