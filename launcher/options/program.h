// What the words after the flags ask for: a job of ours (YAML), a Python script, another program, or a subcommand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"

namespace composer {

struct Program {
  enum class Kind {
    kJob,         // [plugin.so] job.yaml [key=value …]: composer_worker runs it
    kScript,      // train.py …, -m module …, or an executable: started as it is
    kSubcommand,  // one of the table in subcommands.h
  };
  Kind kind = Kind::kScript;
  std::vector<std::string> argv;  // kScript, kJob: argv[0] is an absolute path; kSubcommand: its name and arguments
  size_t first_argument = 1;      // kScript: index in argv of what the user gave the program
  std::string yaml;               // kJob: as the user wrote it; argv lacks --run_folder, which the launcher adds
  std::vector<std::string> overrides;  // kJob: the key=value words
};

struct ProgramQuery {
  std::vector<std::string> words;  // not empty
  bool command = false;            // -c: an executable, whatever its name
  bool module = false;             // -m: a Python module
  std::string worker_path;         // composer_worker, beside this binary
  bool script = false;             // --run-path: a Python script, whatever its name
  std::vector<std::string> subcommands = {};
  // See AdviceFor in subcommands.h; empty: no advice.
  std::function<std::string(const std::string& word, const std::string& next)> advise = {};
};

// A first word without a `/` is a subcommand, a .yaml, .so or .py file, or after -c a program of the PATH; nothing else.
// kInvalidArgument, naming the word and what to write instead: no such file, subcommand or program; a YAML job with
// something else than key=value after it.
absl::StatusOr<Program> FindProgram(const ProgramQuery& query, const Environment& environment);

// The executable file of that name: itself when it has a slash, else searched in PATH. "" when there is none.
std::string FindExecutable(const std::string& name, const Environment& environment);

}  // namespace composer
