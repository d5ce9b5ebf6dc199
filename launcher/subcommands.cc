// SPDX-License-Identifier: Apache-2.0
#include "launcher/subcommands.h"

#include <unistd.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/console.h"
#include "base/nearest_name.h"
#include "base/option_help.h"
#include "config/job_command.h"
#include "contract/exit_code.h"
#include "launcher/control/control_commands.h"
#include "launcher/doctor/doctor.h"
#include "launcher/doctor/env_report.h"
#include "launcher/launch_docs.h"
#include "launcher/options/convert_command.h"
#include "launcher/options/method_cards.h"
#include "launcher/options/methods_command.h"
#include "launcher/options/print_help.h"
#include "launcher/rendezvous/serve.h"
#include "launcher/speedrun/speedrun_command.h"
#include "launcher/start/init_command.h"
#include "launcher/start/plugin_command.h"
#include "net/curl_http.h"
#include "tracking/sync/sync_command.h"
#include "views/run_commands.h"

namespace composer {
namespace {

// composer_worker implements it under the same name, because it needs LibTorch.
std::function<int(const SubcommandCall&)> OfWorker(const std::string& name) {
  return [name](const SubcommandCall& call) {
    std::vector<char*> argv = {const_cast<char*>(call.worker_path.c_str()), const_cast<char*>(name.c_str())};
    for (const std::string& word : call.arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(call.worker_path.c_str(), argv.data());
    PrintErrorToUser(absl::StrCat("`composer ", name, "` needs ", call.worker_path, ", which cannot be started"));
    return exit_code::kUserError;
  };
}

// Prints the help of a command that uses a job's model; main.cc launches the command itself, since it takes the flags
// of a launch.
Subcommand OfJob(const std::string& name) {
  return {name,
          JobCommandUsage(name),
          JobCommandSummary(name),
          [name](const SubcommandCall&) { return PrintHelp(JobCommandHelp(name, HelpColumns())); },
          {},
          JobCommandFlags(name)};
}

std::function<int(const SubcommandCall&)> Control(const std::string& name) {
  return [name](const SubcommandCall& call) { return RunControlCommand(name, call.arguments, call.environment); };
}

// Shows runs from their folders.
Subcommand View(const std::string& name, const std::string& usage, const std::string& summary,
                int (*command)(const std::vector<std::string>&)) {
  return {name,    usage,
          summary, [command](const SubcommandCall& call) { return command(call.arguments); },
          {},      FlagsOfView(name)};
}

int PrintVersion(const SubcommandCall& call) {
  const std::string first = call.arguments.empty() ? "" : call.arguments[0];
  if (first == "--help" || first == "-h")
    return PrintHelp(CommandHelp("composer version [--help]", "Prints the version.", {}));
  if (!first.empty()) {
    PrintErrorToUser(absl::StrCat("version takes no argument `", first, "`"));
    return exit_code::kUserError;
  }
  return PrintHelp(absl::StrCat("composer ", COMPOSER_VERSION, "\n"));
}

// Implements `composer help` and `composer help COMMAND`, which print the same as --help.
int Help(const SubcommandCall& call) {
  if (call.arguments.empty() || call.arguments[0] == "run" || call.arguments[0][0] == '-')
    return PrintHelp(LaunchHelp());
  const auto& table = Subcommands();
  const auto it =
      std::find_if(table.begin(), table.end(), [&](const Subcommand& s) { return s.name == call.arguments[0]; });
  if (it != table.end()) {
    std::vector<std::string> arguments(call.arguments.begin() + 1, call.arguments.end());
    arguments.emplace_back("--help");
    return it->run({arguments, call.environment, call.worker_path});
  }
  PrintErrorToUser(absl::StrCat("there is no command `", call.arguments[0], "`", AdviceFor(call.arguments[0], "")));
  return exit_code::kUserError;
}

std::vector<std::string> FlagsOf(const std::string& control_command) {
  std::vector<std::string> flags;
  for (const Option& option : ControlCommandOptions(control_command)) flags.push_back(absl::StrCat("--", option.name));
  return flags;
}

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const MethodCard& card : MethodCards()) names.emplace_back(card.name);
  return names;
}

// Words that people type who know other tools.
constexpr struct {
  absl::string_view word, advice;
} kOtherWords[] = {
    {"train", "a job needs no subcommand: composer job.yaml"},
    {"launch", "a job needs no subcommand: composer job.yaml"},
    {"start", "a job needs no subcommand: composer job.yaml"},
    {"resume", "the command that started a job resumes it: composer job.yaml"},
    {"continue", "the command that started a job resumes it: composer job.yaml"},
    {"restart", "the command that started a job resumes it: composer job.yaml"},
    {"algorithms", "`composer methods` lists them"},
    {"ls", "`composer runs` lists runs, `composer status` shows what runs now"},
    {"list", "`composer runs` lists runs, `composer checkpoint list` what is saved"},
    {"ps", "`composer status` shows what runs"},
    {"ckpt", "did you mean `checkpoint`?"},
    {"check", "did you mean `validate`?"},
    {"log", "did you mean `logs`?"},
};

}  // namespace

const std::vector<Subcommand>& Subcommands() {
  static const auto& table = *new std::vector<Subcommand>{
      {"run", "[flags] PROGRAM ...", "the same as without a subcommand", nullptr},
      {"serve",
       "[--port PORT] [--job NAME]",
       "run the rendezvous alone",
       [](const SubcommandCall& call) { return ServeCommand(call.arguments, call.environment); },
       {},
       {"--port", "--job", "--bind", "--nodes", "--last-call", "--grow", "--rdzv-grace", "--token-file", "--help"}},
      {"status", "[--json] [--watch] [JOB]", "show how a job is doing", Control("status"), {}, FlagsOf("status"), true},
      {"top", "[JOB]", "watch the ranks of a job, with keys to act on it", Control("top"), {}, FlagsOf("top"), true},
      {"save", "[--wait] JOB", "let a job checkpoint and go on", Control("save"), {}, FlagsOf("save"), true, true},
      {"profile", "JOB", "let a job profile its next batches", Control("profile"), {}, FlagsOf("profile"), true},
      {"stacks", "JOB", "see what the threads of the ranks do", Control("stacks"), {}, FlagsOf("stacks"), true},
      {"drain", "[--wait] JOB", "let a job checkpoint and stop", Control("drain"), {}, FlagsOf("drain"), true, true},
      {"stop", "[--wait] JOB", "end a job now", Control("stop"), {}, FlagsOf("stop"), true, true},
      {"logs", "[--rank N] [--follow] [JOB]", "print the output of a rank", Control("logs"), {}, FlagsOf("logs"), true},
      View("runs", "[flags] [FOLDER]", "list, filter and compare runs", RunsCommand),
      View("plot", "[flags] RUN ... METRIC", "draw a metric of runs", PlotCommand),
      View("report", "[-o FILE] RUN", "one HTML page about a run", ReportCommand),
      {"sync",
       "RUN ...",
       "send what trackers have not received",
       [](const SubcommandCall& call) {
         return SyncCommand(call.arguments, call.environment, std::make_shared<CurlHttp>());
       },
       {},
       {"--help"}},
      {"init",
       "KIND [FOLDER]",
       "write a commented job that trains",
       [](const SubcommandCall& call) { return InitCommand(call.arguments); },
       {"bert", "finetune", "gpt", "resnet"},
       {"--help"}},
      {"plugin",
       "new NAME [FOLDER]",
       "write a plugin that builds and trains",
       [](const SubcommandCall& call) { return PluginCommand(call.arguments, call.worker_path); },
       {"new"},
       {"--help"}},
      {"doctor",
       "[--json] [HOST:PORT]",
       "check this machine and say what to fix",
       [](const SubcommandCall& call) { return DoctorCommand(call.arguments, call.environment); },
       {},
       {"--json", "--run-folder", "--help"}},
      {"env",
       "",
       "print versions and machine, to paste into a report",
       [](const SubcommandCall& call) { return EnvCommand(call.arguments, call.environment); },
       {},
       {"--help"}},
      OfJob("eval"),
      OfJob("predict"),
      OfJob("generate"),
      {"validate", "job.yaml [key=value ...]", "check a YAML file", OfWorker("validate"), {}, {"--help"}},
      {"plan",
       "job.yaml [-n N] [--gpu NAME]",
       "what a run will cost, without starting it",
       OfWorker("plan"),
       {},
       {"--nproc", "-n", "--gpu", "--help"}},
      {"convert",
       "[-o FILE] FILE",
       "rewrite a file of Composer's or llm-foundry's names",
       [](const SubcommandCall& call) { return ConvertCommand(call.arguments, call.environment); },
       {},
       {"--output", "--help"}},
      {"methods",
       "[NAME]",
       "what makes training better or cheaper",
       [](const SubcommandCall& call) { return MethodsCommand(call.arguments, call.environment); },
       MethodNames(),
       {"--help"}},
      {"speedrun",
       "fashion|gpt|bert [flags]",
       "a recipe against a plain run, to the same quality",
       [](const SubcommandCall& call) { return SpeedrunCommand(call.arguments, call.environment, call.worker_path); },
       {"fashion", "gpt", "bert"},
       {"--seeds", "--first-seed", "--folder", "--arm", "--quality", "--json", "--help"}},
      {"checkpoint",
       "COMMAND ...",
       "list, show, verify, diff, export, import, prune",
       OfWorker("checkpoint"),
       {"list", "show", "verify", "diff", "export", "import", "prune"},
       {"--json", "--verify", "--dtype", "--max-shard-size", "--rename", "--overwrite", "--key", "--run-name", "--keep",
        "--dry-run", "--force", "--hf", "--adapter", "--dcp", "--weights-only", "--help"}},
      {"data",
       "COMMAND ...",
       "write, inspect, verify, merge, count, show data",
       OfWorker("data"),
       {"write", "inspect", "verify", "stats", "bench", "merge", "show"},
       {"--columns", "--compression", "--hashes", "--size-limit", "--threads", "--restart", "--format", "--row",
        "--dtype", "--tokenizer", "--samples", "--canonical-nodes", "--dataloader", "--epoch", "--characters", "--png",
        "--help"}},
      {"tokenize",
       "[flags] PATH",
       "text into tokens, and back",
       OfWorker("tokenize"),
       {},
       {"--decode", "--count", "--spans", "--pattern", "--special", "--no-special-tokens", "--help"}},
      {"tokenizer",
       "train [flags] FOLDER",
       "make a tokenizer from text",
       OfWorker("tokenizer"),
       {"train"},
       {"--model", "--vocab-size", "--min-frequency", "--special", "--key", "--help"}},
      {"store", "check PLACE", "try a place for checkpoints", OfWorker("store"), {"check"}, {"--help"}},
      {"trace", "merge FOLDER [OUTPUT]", "join the traces of the ranks", OfWorker("trace"), {"merge"}, {"--help"}},
      {"version", "", "print the version", PrintVersion, {}, {"--help"}},
      {"help", "[COMMAND]", "print this, or the help of a command", Help},
  };
  return table;
}

std::vector<std::string> SubcommandNames() {
  std::vector<std::string> names;
  for (const Subcommand& command : Subcommands()) names.push_back(command.name);
  return names;
}

// A word of another tool counts when it is that word; else a command that is near comes before such a word that is.
std::string AdviceFor(const std::string& word, const std::string& next) {
  std::vector<std::string> commands, others;
  for (const Subcommand& command : Subcommands()) {
    if (!command.changes_jobs) commands.push_back(command.name);
  }
  for (const auto& other : kOtherWords) others.emplace_back(other.word);
  const std::string lower = absl::AsciiStrToLower(word);
  if (!absl::c_linear_search(others, lower)) {
    if (std::string near = DidYouMean(lower, commands); !near.empty()) return near;
  }
  const std::string meant = NearestName(lower, others);
  for (const auto& other : kOtherWords) {
    if (other.word != meant) continue;
    return absl::StrCat(" (", next.empty() ? other.advice : absl::StrReplaceAll(other.advice, {{"job.yaml", next}}),
                        ")");
  }
  return "; composer --help lists the commands";
}

}  // namespace composer
