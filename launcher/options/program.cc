// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/program.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/job_command.h"
#include "config/override.h"

namespace composer {
namespace {

bool IsExecutableFile(const std::string& path) { return !IsDirectory(path) && access(path.c_str(), X_OK) == 0; }

bool IsYaml(const std::string& word) { return absl::EndsWith(word, ".yaml") || absl::EndsWith(word, ".yml"); }

absl::StatusOr<Program> YamlJob(const ProgramQuery& query) {
  Program program{.kind = Program::Kind::kJob, .argv = {query.worker_path}, .yaml = query.words[0]};
  if (!PathExists(program.yaml)) return absl::InvalidArgumentError(absl::StrCat("no such file: ", program.yaml));
  program.overrides.assign(query.words.begin() + 1, query.words.end());
  for (const std::string& word : program.overrides) {
    if (!absl::StartsWith(word, "-") && LooksLikeOverride(word)) continue;
    const char* hint = word[0] == '-' ? " (flags come before the YAML file)" : "";
    return absl::InvalidArgumentError(
        absl::StrCat("after ", program.yaml, " come settings key=value, not `", word, "`", hint));
  }
  program.argv.insert(program.argv.end(), query.words.begin(), query.words.end());
  return program;
}

absl::StatusOr<Program> Python(const ProgramQuery& query, const Environment& environment) {
  const std::string python = FindExecutable("python3", environment);
  if (python.empty())
    return absl::InvalidArgumentError(absl::StrCat("python3 is not in PATH; it is needed to run ", query.words[0]));
  Program program{.argv = {python}};
  if (query.module) program.argv.push_back("-m");
  if (!query.module && !PathExists(query.words[0])) {
    return absl::InvalidArgumentError(absl::StrCat("no such file: ", query.words[0]));
  }
  program.first_argument = program.argv.size() + 1;
  program.argv.insert(program.argv.end(), query.words.begin(), query.words.end());
  return program;
}

// Makes the job of `plugin.so job.yaml …`, with that plugin in place of its own.
absl::StatusOr<Program> PluginJob(const ProgramQuery& query) {
  const std::string& plugin = query.words[0];
  if (!PathExists(plugin)) return absl::InvalidArgumentError(absl::StrCat("no such file: ", plugin));
  if (query.words.size() < 2 || !IsYaml(query.words[1])) {
    return absl::InvalidArgumentError(
        absl::StrCat(plugin, " is a plugin: the YAML file of a job that uses it must follow"));
  }
  ProgramQuery job = query;
  job.words.erase(job.words.begin());
  job.words.push_back(absl::StrCat("plugins=[\"", absl::CEscape(AbsolutePath(plugin)), "\"]"));
  return YamlJob(job);
}

absl::StatusOr<Program> OfJobCommand(const ProgramQuery& query) {
  ASSIGN_OR_RETURN(const JobCommand command, ParseJobCommand(query.job_command, query.words));
  if (!PathExists(command.yaml_path))
    return absl::InvalidArgumentError(absl::StrCat("no such file: ", command.yaml_path));
  Program program{.kind = Program::Kind::kJobCommand,
                  .argv = {query.worker_path, query.job_command},
                  .yaml = command.yaml_path,
                  .overrides = command.overrides};
  program.argv.insert(program.argv.end(), query.words.begin(), query.words.end());
  return program;
}

// A bare word may be a mistyped subcommand, so a program of that name in PATH is not run on N ranks.
absl::Status NotFound(const ProgramQuery& query, const Environment& environment) {
  const std::string& word = query.words[0];
  const std::string what = absl::StrCat("`", word, "` is not a subcommand, a .yaml or a .py file");
  if (IsExecutableFile(word))
    return absl::InvalidArgumentError(absl::StrCat(what, "; to run the program here: ./", word));
  const std::string next = query.words.size() > 1 && IsYaml(query.words[1]) ? query.words[1] : "";
  const std::string advice = query.advise ? query.advise(word, next) : "";
  if (absl::StartsWith(advice, " (") || FindExecutable(word, environment).empty())
    return absl::InvalidArgumentError(absl::StrCat(what, advice));
  return absl::InvalidArgumentError(absl::StrCat(what, "; to run the program on each rank: composer -c ", word));
}

}  // namespace

std::string FindExecutable(const std::string& name, const Environment& environment) {
  if (absl::StrContains(name, '/')) return IsExecutableFile(name) ? AbsolutePath(name) : "";
  const std::string path = environment.GetOr("PATH", "/usr/local/bin:/usr/bin:/bin");
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    const std::string candidate = JoinPath(folder, name);
    if (IsExecutableFile(candidate)) return AbsolutePath(candidate);
  }
  return "";
}

absl::StatusOr<Program> FindProgram(const ProgramQuery& query, const Environment& environment) {
  const std::string& word = query.words[0];
  if (!query.job_command.empty()) return OfJobCommand(query);
  if (query.command && query.module) return absl::InvalidArgumentError("-c and -m exclude each other");
  if (query.command && query.script) return absl::InvalidArgumentError("-c and --run-path exclude each other");
  if (query.module) return Python(query, environment);
  if (!query.command) {
    if (std::find(query.subcommands.begin(), query.subcommands.end(), word) != query.subcommands.end()) {
      return Program{.kind = Program::Kind::kSubcommand, .argv = query.words};
    }
    if (IsYaml(word)) return YamlJob(query);
    if (absl::EndsWith(word, ".so")) return PluginJob(query);
    if (query.script || absl::EndsWith(word, ".py")) return Python(query, environment);
    if (!absl::StrContains(word, '/')) return NotFound(query, environment);
  }
  std::string path = FindExecutable(word, environment);
  if (path.empty() && IsExecutableFile(word)) path = AbsolutePath(word);  // in the current folder, which is not in PATH
  if (path.empty() && PathExists(word))
    return absl::InvalidArgumentError(absl::StrCat(word, " is not executable, a .yaml or a .py file"));
  if (path.empty()) return absl::InvalidArgumentError(absl::StrCat("no such program: ", word));
  Program program{.argv = {path}};
  program.argv.insert(program.argv.end(), query.words.begin() + 1, query.words.end());
  return program;
}

}  // namespace composer
