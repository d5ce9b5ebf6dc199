// Determines what the words after the flags mean: a job of ours (YAML), a Python script, another program, or a
// subcommand.
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
    kJob,         // [plugin.so] job.yaml [key=value …], run by composer_worker
    kJobCommand,  // `eval [plugin.so] job.yaml …` and its like (config/job_command.h), run by composer_worker
    kScript,      // train.py …, -m module …, or an executable, started as it is
    kSubcommand,  // one of the table in subcommands.h
  };
  Kind kind = Kind::kScript;
  std::vector<std::string>
      argv;  // kScript, kJob, kJobCommand: argv[0] is an absolute path; kSubcommand: its name and arguments
  size_t first_argument = 1;  // kScript: index in argv of the first argument that the user gave the program
  std::string yaml;  // kJob, kJobCommand: as the user wrote it; argv lacks --run_folder, which the launcher adds
  std::vector<std::string> overrides;  // kJob, kJobCommand: the key=value words
};

struct ProgramQuery {
  std::vector<std::string> words;  // not empty
  bool command = false;            // -c: an executable, whatever its name
  bool module = false;             // -m: a Python module
  std::string worker_path;         // composer_worker, beside this binary
  bool script = false;             // --run-path: a Python script, whatever its name
  std::string job_command;         // kJobCommand: its name; "" else
  std::vector<std::string> subcommands = {};
  // See AdviceFor in subcommands.h; empty means no advice.
  std::function<std::string(const std::string& word, const std::string& next)> advise = {};
};

// A first word without a `/` is only ever a subcommand, a .yaml, .so or .py file or, after -c, a program in PATH.
// Returns kInvalidArgument, naming the word and what to write instead, if there is no such file, subcommand or program,
// or if a YAML job is followed by anything but key=value.
absl::StatusOr<Program> FindProgram(const ProgramQuery& query, const Environment& environment);

// Returns the executable file of that name: the name itself if it has a slash, else the one found in PATH. "" if there
// is none.
std::string FindExecutable(const std::string& name, const Environment& environment);

}  // namespace composer
