// The composer binary; see LaunchHelp in launch_docs.cc.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "config/job_command.h"
#include "launcher/control/control_commands.h"
#include "launcher/launch.h"
#include "launcher/launch_docs.h"
#include "launcher/options/print_help.h"
#include "launcher/process/init_process.h"
#include "launcher/process/spawner.h"
#include "launcher/subcommands.h"

namespace composer {
namespace {

int RunSubcommand(const Program& program, const std::string& worker, const Environment& environment) {
  const auto& table = Subcommands();
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const Subcommand& s) { return s.name == program.argv[0]; });
  if (!it->run) return UserError("`composer run` takes one program");
  return it->run({{program.argv.begin() + 1, program.argv.end()}, environment, worker});
}

// Parses `composer [flags] run [flags] PROGRAM …`: takes the flags of both places and drops the word `run`. The same
// goes for the commands of config/job_command.h, which are kept in LaunchOptions::job_command.
absl::StatusOr<LaunchOptions> ParseArguments(std::vector<std::string> arguments, const Environment& environment) {
  ASSIGN_OR_RETURN(LaunchOptions options, ParseLaunchOptions(arguments, environment));
  if (options.words.empty() || options.command || options.module) return options;
  const std::string word = options.words[0];
  if (word != "run" && !IsJobCommand(word)) return options;
  arguments.erase(arguments.end() - static_cast<std::ptrdiff_t>(options.words.size()));
  absl::StatusOr<LaunchOptions> second = ParseLaunchOptions(arguments, environment);
  if (word == "run") return second;
  if (!second.ok())
    return absl::InvalidArgumentError(
        absl::StrCat(second.status().message(), " (flags of ", word, " itself come after the YAML file)"));
  second->job_command = word;
  return second;
}

// Returns whether the help of a command was asked for: `composer eval --help`, `composer eval job.yaml --help`.
bool AsksForJobCommandHelp(const LaunchOptions& options) {
  if (options.job_command.empty()) return false;
  const auto command = ParseJobCommand(options.job_command, options.words);
  return options.help || (command.ok() && command->help);
}

int Main(const std::vector<std::string>& arguments) {
  const Environment environment = Environment::FromProcess();
  const auto options = ParseArguments(arguments, environment);
  if (!options.ok()) return UserError(options.status().message());
  if (options->version) return PrintHelp(absl::StrCat("composer ", COMPOSER_VERSION, "\n"));
  if (AsksForJobCommandHelp(*options)) return PrintHelp(JobCommandHelp(options->job_command, HelpColumns()));
  if (options->help) return PrintHelp(LaunchHelp());
  if (options->print_completion == "jobs") return PrintHelp(RunningJobs(environment));
  if (!options->print_completion.empty()) return PrintHelp(LaunchCompletion(options->print_completion));
  if (options->words.empty() && options->job_command.empty())
    return UserError("nothing to run: composer job.yaml, composer -c program, or --help");
  InitLogging("composer", options->verbose ? 0 : 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string worker = JoinPath(DirName(self), "composer_worker");
  const auto program = FindProgram({.words = options->words,
                                    .command = options->command,
                                    .module = options->module,
                                    .worker_path = worker,
                                    .script = options->run_path,
                                    .job_command = options->job_command,
                                    .subcommands = SubcommandNames(),
                                    .advise = AdviceFor},
                                   environment);
  if (!program.ok()) return UserError(program.status().message());
  if (program->kind == Program::Kind::kSubcommand) return RunSubcommand(*program, worker, environment);
  return Launch(*options, *program, environment);
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], composer::kSpawnerCommand) == 0) {
    _exit(composer::RunRestartedSpawner(argc, argv));
  }
  if (getpid() == 1) {
    if (const auto code = composer::RunUnderInit(); code.has_value()) _exit(*code);
  }
  // Not exit(), because a thread may still wait for a rendezvous that is gone, and static destructors would run beside
  // it.
  _exit(composer::Main({argv + 1, argv + argc}));
}
