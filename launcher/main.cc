// composer: see LaunchHelp in launch_options.cc.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/console.h"
#include "launcher/launch.h"
#include "launcher/restart_policy.h"
#include "launcher/serve.h"

namespace composer {
namespace {

int PrintAndLeave(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? exit_code::kDone : exit_code::kFailure;
}

int UserError(absl::string_view message) {
  Tell(message);
  return exit_code::kUserError;
}

std::string Version() { return absl::StrCat("composer ", COMPOSER_VERSION, "\n"); }

// checkpoint and validate need LibTorch: composer_worker has them under the same names.
int ExecWorker(const std::string& worker, const std::vector<std::string>& words) {
  std::vector<char*> argv = {const_cast<char*>(worker.c_str())};
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(worker.c_str(), argv.data());
  return UserError(absl::StrCat("`composer ", words[0], "` needs ", worker, ", which cannot be started"));
}

int RunSubcommand(const std::vector<std::string>& words, const std::string& worker, const Environment& environment) {
  if (words[0] == "version") return PrintAndLeave(Version());
  if (words[0] == "serve") return ServeCommand({words.begin() + 1, words.end()}, environment);
  return ExecWorker(worker, words);
}

int Main(const std::vector<std::string>& arguments) {
  const Environment environment = Environment::FromProcess();
  const auto options = ParseLaunchOptions(arguments, environment);
  if (!options.ok()) return UserError(options.status().message());
  if (options->version) return PrintAndLeave(Version());
  if (options->help) return PrintAndLeave(LaunchHelp());
  if (options->words.empty()) return UserError("nothing to run: composer job.yaml, composer -c program, or --help");
  InitLogging("composer", options->verbose ? 0 : 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string worker = JoinPath(DirName(self), "composer_worker");
  const auto program = FindProgram({options->words, options->command, options->module, worker}, environment);
  if (!program.ok()) return UserError(program.status().message());
  if (program->kind == Program::Kind::kSubcommand) return RunSubcommand(program->argv, worker, environment);
  return Launch(*options, *program, environment);
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  // Not exit(): a thread may still wait for a rendezvous that is gone, and static destructors would run beside it.
  _exit(composer::Main({argv + 1, argv + argc}));
}
