// SPDX-License-Identifier: Apache-2.0
#include "launcher/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

const std::vector<std::string>& Subcommands() {
  static const auto& names = *new std::vector<std::string>{"serve", "version", "checkpoint", "validate"};
  return names;
}

bool IsExecutableFile(const std::string& path) { return !IsDirectory(path) && access(path.c_str(), X_OK) == 0; }

absl::StatusOr<Program> YamlJob(const ProgramQuery& query) {
  Program program{.kind = Program::Kind::kJob, .argv = {query.worker_path}, .yaml = query.words[0]};
  if (!PathExists(program.yaml)) return absl::InvalidArgumentError(absl::StrCat("no such file: ", program.yaml));
  program.overrides.assign(query.words.begin() + 1, query.words.end());
  for (const std::string& word : program.overrides) {
    if (word.find('=') != std::string::npos && word[0] != '-') continue;
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
  program.argv.insert(program.argv.end(), query.words.begin(), query.words.end());
  return program;
}

absl::Status NotFound(const std::string& word) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", word, "` is no file, program or subcommand", DidYouMean(word, Subcommands())));
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
  if (query.command && query.module) return absl::InvalidArgumentError("-c and -m exclude each other");
  if (query.module) return Python(query, environment);
  if (!query.command) {
    if (std::find(Subcommands().begin(), Subcommands().end(), word) != Subcommands().end()) {
      return Program{.kind = Program::Kind::kSubcommand, .argv = query.words};
    }
    if (absl::EndsWith(word, ".yaml") || absl::EndsWith(word, ".yml")) return YamlJob(query);
    if (absl::EndsWith(word, ".py")) return Python(query, environment);
  }
  std::string path = FindExecutable(word, environment);
  if (path.empty() && IsExecutableFile(word)) path = AbsolutePath(word);  // in the current folder, which PATH lacks
  if (path.empty() && PathExists(word)) return absl::InvalidArgumentError(absl::StrCat(word, " is not executable"));
  if (path.empty()) return NotFound(word);
  Program program{.argv = {path}};
  program.argv.insert(program.argv.end(), query.words.begin() + 1, query.words.end());
  return program;
}

}  // namespace composer
