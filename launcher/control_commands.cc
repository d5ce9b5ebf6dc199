// SPDX-License-Identifier: Apache-2.0
#include "launcher/control_commands.h"

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/options.h"
#include "base/status_macros.h"
#include "launcher/console.h"
#include "launcher/control_client.h"
#include "launcher/job_security.h"
#include "launcher/job_status.h"
#include "launcher/log_follower.h"
#include "launcher/run_file.h"

namespace composer {
namespace {

constexpr absl::Duration kWatchEvery = absl::Seconds(1);
constexpr absl::Duration kFollowEvery = absl::Milliseconds(100);
constexpr int64_t kMaxSummary = 16 << 20;
constexpr char kClear[] = "\033[H\033[2J";

struct Arguments {
  std::string job;  // "": the only one
  std::string at;
  SecurityFlags security;
  bool help = false;
  bool json = false, watch = false;  // status
  bool wait = false;                 // drain, stop
  bool follow = false;               // logs
  int rank = 0, generation = 0, lines = -1;
};

std::vector<Option> CommonOptions(Arguments& a) {
  std::vector<Option> table = {{.name = "at",
                                .metavar = "HOST:PORT",
                                .help = "ask this launcher's --control-port",
                                .fallback = "a job of this machine",
                                .set = IntoString(&a.at)},
                               {.name = "help", .short_name = 'h', .help = "print this", .set = IntoBool(&a.help)}};
  for (Option& option : SecurityOptions(&a.security)) table.push_back(std::move(option));
  return table;
}

std::vector<Option> StatusOptions(Arguments& a) {
  return {
      {.name = "json", .help = "one JSON object", .set = IntoBool(&a.json)},
      {.name = "watch", .short_name = 'w', .help = "again each second until the job ends", .set = IntoBool(&a.watch)}};
}

std::vector<Option> NoOptions(Arguments& a) { return {}; }

std::vector<Option> EndOptions(Arguments& a) {
  return {{.name = "wait", .help = "return when the launcher has ended", .set = IntoBool(&a.wait)}};
}

std::vector<Option> LogsOptions(Arguments& a) {
  return {{.name = "rank",
           .short_name = 'r',
           .metavar = "N",
           .help = "whose",
           .fallback = "0",
           .set = IntoInt(&a.rank, 0, 10'000'000)},
          {.name = "generation",
           .short_name = 'g',
           .metavar = "N",
           .help = "which attempt of the launch",
           .fallback = "the newest",
           .set = IntoInt(&a.generation, 1, std::numeric_limits<int>::max())},
          {.name = "lines",
           .short_name = 'n',
           .metavar = "N",
           .help = "only the last lines",
           .fallback = "all",
           .set = IntoInt(&a.lines, 0, 1'000'000'000)},
          {.name = "follow", .short_name = 'f', .help = "go on while the job runs", .set = IntoBool(&a.follow)}};
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return exit_code::kDone;
  Tell(status.message());
  const bool usage =
      absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return usage ? exit_code::kUserError : exit_code::kUnavailable;
}

void Print(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Flags and one word, in any order.
absl::Status Parse(const std::vector<Option>& table, std::vector<std::string> words, const Environment& environment,
                   std::string& job) {
  while (!words.empty()) {
    ASSIGN_OR_RETURN(const ParsedOptions parsed, ParseOptions(table, words, environment));
    words = parsed.rest;
    if (words.empty()) break;
    if (!job.empty())
      return absl::InvalidArgumentError(absl::StrCat("one job at a time: `", job, "` or `", words[0], "`"));
    job = words[0];
    words.erase(words.begin());
  }
  return absl::OkStatus();
}

absl::StatusOr<RunFile> Find(const Arguments& a, const Environment& environment) {
  ASSIGN_OR_RETURN(const std::string registry, RegistryFolder(environment));
  return FindRun(ListRuns(registry), a.job);
}

// A launcher to talk to; `run` is not set for one of another machine.
struct Target {
  std::optional<RunFile> run;
  ControlClient client;
};

absl::StatusOr<Target> Reach(const Arguments& a, const Environment& environment) {
  if (!a.at.empty()) {
    ASSIGN_OR_RETURN(const JobSecurity security, ChooseSecurity(a.security, environment, /*several_nodes=*/false));
    ASSIGN_OR_RETURN(const Credentials credentials, MakeCredentials(security));
    ASSIGN_OR_RETURN(ControlClient client, ControlClient::Open(a.at, credentials));
    return Target{std::nullopt, std::move(client)};
  }
  ASSIGN_OR_RETURN(RunFile run, Find(a, environment));
  ASSIGN_OR_RETURN(ControlClient client, ControlClient::Open(absl::StrCat("unix:", run.socket), Credentials()));
  return Target{std::move(run), std::move(client)};
}

// A job that has ended can still be told of by its run folder.
absl::Status ShowEnded(const Arguments& a, const absl::Status& not_running) {
  const std::string path = JoinPath(a.job, "summary.json");
  if (a.job.empty() || !a.at.empty() || !PathExists(path)) return not_running;
  ASSIGN_OR_RETURN(const std::string summary, ReadFile(path, kMaxSummary));
  if (!a.json) std::fprintf(stderr, "composer: not running on this machine; its summary says:\n");
  Print(summary);
  return absl::OkStatus();
}

absl::Status Status(const Arguments& a, const Environment& environment) {
  absl::StatusOr<Target> target = Reach(a, environment);
  if (!target.ok()) return ShowEnded(a, target.status());
  const bool clear = a.watch && !a.json && isatty(STDOUT_FILENO) != 0;
  while (true) {
    const absl::StatusOr<proto::JobStatus> status = target->client.Status();
    if (!status.ok()) return a.watch && absl::IsUnavailable(status.status()) ? absl::OkStatus() : status.status();
    Print(absl::StrCat(clear ? kClear : "", a.json ? StatusJson(*status) : DescribeStatus(*status)));
    if (!a.watch || status->state() == "finished") return absl::OkStatus();
    absl::SleepFor(kWatchEvery);
  }
}

std::string Who(absl::string_view command) {
  return absl::StrCat("composer ", command, " (user ", getuid(), ", pid ", getpid(), ")");
}

absl::Status WaitForEnd(Target& target) {
  while (target.run.has_value() ? IsAlive(*target.run) : target.client.Status().ok()) absl::SleepFor(kFollowEvery);
  return absl::OkStatus();
}

absl::Status Save(const Arguments& a, const Environment& environment) {
  ASSIGN_OR_RETURN(Target target, Reach(a, environment));
  ASSIGN_OR_RETURN(const proto::JobStatus status, target.client.Status());
  if (status.run_name().empty())
    return absl::InvalidArgumentError(absl::StrCat(status.job(), " is no YAML job: a program cannot be asked to save"));
  if (status.state() != "running")
    return absl::UnavailableError(absl::StrCat(status.job(), " is ", status.state(), ": nobody is there to save"));
  return target.client.Save(Who("save"));
}

absl::Status Drain(const Arguments& a, const Environment& environment) {
  ASSIGN_OR_RETURN(Target target, Reach(a, environment));
  RETURN_IF_ERROR(target.client.Drain(Who("drain")));
  return a.wait ? WaitForEnd(target) : absl::OkStatus();
}

absl::Status Stop(const Arguments& a, const Environment& environment) {
  ASSIGN_OR_RETURN(Target target, Reach(a, environment));
  RETURN_IF_ERROR(target.client.Stop(Who("stop")));
  return a.wait ? WaitForEnd(target) : absl::OkStatus();
}

absl::Status CopyNew(LogFollower& log, bool& any) {
  while (true) {
    ASSIGN_OR_RETURN(const std::string text, log.Read());
    if (text.empty()) return absl::OkStatus();
    any = true;
    Print(text);
  }
}

absl::Status Follow(LogFollower& log, const std::string& folder, const RunFile& run, int rank) {
  while (true) {
    const bool alive = IsAlive(run);  // asked before reading: what was written until the end is shown
    bool any = false;
    RETURN_IF_ERROR(CopyNew(log, any));
    ASSIGN_OR_RETURN(const std::vector<int> generations, LogGenerations(folder, rank));
    if (generations.back() > log.generation()) {
      RETURN_IF_ERROR(log.Open(generations.back()));
      Tell(absl::StrCat("generation ", log.generation()));
    } else if (!alive) {
      return absl::OkStatus();
    } else if (!any) {
      absl::SleepFor(kFollowEvery);
    }
  }
}

absl::Status Logs(const Arguments& a, const Environment& environment) {
  if (!a.at.empty())
    return absl::InvalidArgumentError("logs are files: look at the run folder, on any machine that has it");
  const absl::StatusOr<RunFile> run = Find(a, environment);
  const bool is_folder = !a.job.empty() && IsDirectory(JoinPath(a.job, "logs"));
  if (!run.ok() && !is_folder) return run.status();
  const std::string folder = run.ok() ? run->run_folder : a.job;
  if (folder.empty())
    return absl::NotFoundError(absl::StrCat(
        run->job, " is no YAML job and keeps no logs of its own: see --log-dir and --redirects of its launch"));
  ASSIGN_OR_RETURN(const std::vector<int> generations, LogGenerations(folder, a.rank));
  LogFollower log(folder, a.rank);
  RETURN_IF_ERROR(log.Open(a.generation > 0 ? a.generation : generations.back(), a.lines));
  if (a.follow && run.ok() && a.generation == 0) return Follow(log, folder, *run, a.rank);
  bool any = false;
  return CopyNew(log, any);
}

struct Command {
  std::vector<Option> (*options)(Arguments&);
  absl::Status (*run)(const Arguments&, const Environment&);
  const char* help;
};

const std::map<std::string, Command, std::less<>>& Commands() {
  static const auto& commands = *new std::map<std::string, Command, std::less<>>{
      {"status", {StatusOptions, Status, "how a job is doing: nodes, ranks, step, restarts, last cause"}},
      {"save", {NoOptions, Save, "a job checkpoints after the next step and goes on"}},
      {"drain", {EndOptions, Drain, "a job checkpoints and stops, as on SIGTERM"}},
      {"stop", {EndOptions, Stop, "a job ends now, without a checkpoint"}},
      {"logs", {LogsOptions, Logs, "the output of a rank of a YAML job"}}};
  return commands;
}

}  // namespace

int RunControlCommand(const std::string& name, const std::vector<std::string>& words, const Environment& environment) {
  const Command& command = Commands().find(name)->second;
  Arguments arguments;
  std::vector<Option> table = command.options(arguments);
  for (Option& option : CommonOptions(arguments)) table.push_back(std::move(option));
  const absl::Status parsed = Parse(table, words, environment, arguments.job);
  if (!parsed.ok()) return ExitCode(parsed);
  if (arguments.help) {
    Print(absl::StrCat("composer ", name, " [flags] [run name, run folder or pid]: ", command.help, "\n",
                       OptionsHelp(table)));
    return exit_code::kDone;
  }
  return ExitCode(command.run(arguments, environment));
}

}  // namespace composer
