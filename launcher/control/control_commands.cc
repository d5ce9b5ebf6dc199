// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/control_commands.h"

#include <unistd.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "contract/exit_code.h"
#include "launcher/control/control_client.h"
#include "launcher/control/job_requests.h"
#include "launcher/control/job_status.h"
#include "launcher/control/run_file.h"
#include "launcher/control/top_command.h"
#include "launcher/options/print_help.h"
#include "launcher/rendezvous/job_security.h"
#include "launcher/workers/log_follower.h"

namespace composer {
namespace {

constexpr absl::Duration kWatchEvery = absl::Seconds(1);
constexpr absl::Duration kFollowEvery = absl::Milliseconds(100);
constexpr int64_t kMaxSummary = 16 << 20;
constexpr char kClear[] = "\033[H\033[2J";

struct Arguments {
  std::string job;  // "" means the only one
  std::string at;
  SecurityFlags security;
  bool help = false;
  bool json = false, watch = false;  // status
  bool wait = false, all = false;    // save, drain, stop
  bool follow = false;               // logs
  int rank = 0, generation = 0, lines = -1;
};

std::vector<Option> CommonOptions(Arguments& a) {
  std::vector<Option> table = {
      Valued("at", "HOST:PORT", "ask this launcher's --control-port", "a job of this machine", IntoString(&a.at)),
      HelpSwitch(&a.help)};
  for (Option& option : SecurityOptions(&a.security)) table.push_back(std::move(option));
  return table;
}

std::vector<Option> StatusOptions(Arguments& a) {
  return {Switch("json", "one JSON object", IntoBool(&a.json)),
          Switch("watch", "again each second until the job ends", IntoBool(&a.watch), 'w')};
}

std::vector<Option> TopOptions(Arguments&) { return {}; }

std::vector<Option> SaveOptions(Arguments& a) {
  return {Switch("wait", "return when the checkpoint is there, and say where", IntoBool(&a.wait)),
          Switch("all", "every job of yours on this machine", IntoBool(&a.all))};
}

std::vector<Option> InspectOptions(Arguments& a) {
  return {Switch("all", "every job of yours on this machine", IntoBool(&a.all))};
}

std::vector<Option> EndOptions(Arguments& a) {
  return {Switch("wait", "return when the launcher has ended, and say how", IntoBool(&a.wait)),
          Switch("all", "every job of yours on this machine", IntoBool(&a.all))};
}

std::vector<Option> LogsOptions(Arguments& a) {
  return {Valued("rank", "N", "whose", "0", IntoInt(&a.rank, 0, 10'000'000), 'r'),
          Valued("generation", "N", "which attempt of the launch", "the newest",
                 IntoInt(&a.generation, 1, std::numeric_limits<int>::max()), 'g'),
          Valued("lines", "N", "only the last lines", "all", IntoInt(&a.lines, 0, 1'000'000'000), 'n'),
          Switch("follow", "go on while the job runs", IntoBool(&a.follow), 'f')};
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return exit_code::kDone;
  PrintErrorToUser(status.message());
  const bool usage =
      absl::IsInvalidArgument(status) || absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return usage ? exit_code::kUserError : exit_code::kUnavailable;
}

void Print(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Parses flags and one word, in any order.
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

// A launcher to talk to; `run` is unset if it is on another machine.
struct Target {
  std::optional<RunFile> run;
  ControlClient client;
};

absl::StatusOr<Target> OpenTarget(const Arguments& a, const Environment& environment) {
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

// Shows an ended job from the summary in its run folder.
absl::Status ShowEnded(const Arguments& a, const absl::Status& not_running) {
  const std::string path = JoinPath(a.job, "summary.json");
  if (a.job.empty() || !a.at.empty() || !PathExists(path)) return not_running;
  ASSIGN_OR_RETURN(const std::string summary, ReadFile(path, kMaxSummary));
  if (!a.json) std::fprintf(stderr, "composer: not running on this machine; its summary says:\n");
  Print(summary);
  return absl::OkStatus();
}

absl::Status Status(const Arguments& a, const Environment& environment) {
  absl::StatusOr<Target> target = OpenTarget(a, environment);
  if (!target.ok()) return ShowEnded(a, target.status());
  const bool clear = a.watch && !a.json && isatty(STDOUT_FILENO) != 0;
  while (true) {
    const absl::StatusOr<proto::JobStatus> status = target->client.Status();
    if (!status.ok()) return a.watch && absl::IsUnavailable(status.status()) ? absl::OkStatus() : status.status();
    Print(absl::StrCat(clear ? kClear : "", a.json ? StatusJson(*status) : PrintableText(DescribeStatus(*status))));
    if (!a.watch || status->state() == "finished") return absl::OkStatus();
    absl::SleepFor(kWatchEvery);
  }
}

absl::Status Top(const Arguments& a, const Environment& environment) {
  ASSIGN_OR_RETURN(Target target, OpenTarget(a, environment));
  return ShowTop(target.client, /*local=*/target.run.has_value());
}

// Returns the jobs that a changing command applies to; never guesses.
absl::StatusOr<std::vector<Target>> Choose(const Arguments& a, const Environment& environment) {
  std::vector<Target> targets;
  if (!a.at.empty()) {
    ASSIGN_OR_RETURN(Target target, OpenTarget(a, environment));
    targets.push_back(std::move(target));
    return targets;
  }
  ASSIGN_OR_RETURN(const std::string registry, RegistryFolder(environment));
  ASSIGN_OR_RETURN(const std::vector<RunFile> runs, ChooseRuns(ListRuns(registry), a.job, a.all));
  for (const RunFile& run : runs) {
    ASSIGN_OR_RETURN(ControlClient client, ControlClient::Open(absl::StrCat("unix:", run.socket), Credentials()));
    targets.push_back({run, std::move(client)});
  }
  return targets;
}

// Notifies every job before waiting for any. Returns the first error, but still asks each job.
absl::Status ChangeJobs(const Arguments& a, const Environment& environment, JobChange change) {
  ASSIGN_OR_RETURN(std::vector<Target> targets, Choose(a, environment));
  absl::Status result;
  std::vector<std::function<absl::StatusOr<std::string>()>> waits;
  for (Target& target : targets) {
    const absl::StatusOr<AskedJob> asked = AskJob(target.client, change);
    if (!asked.ok()) {
      result.Update(asked.status());
      continue;
    }
    Print(asked->said + "\n");
    waits.push_back([&target, asked = *asked, change] { return WaitForJob(target.client, target.run, asked, change); });
  }
  for (const auto& wait : waits) {
    if (!a.wait) break;
    const absl::StatusOr<std::string> ended = wait();
    if (ended.ok()) Print(*ended + "\n");
    result.Update(ended.status());
  }
  return result;
}

absl::Status Save(const Arguments& a, const Environment& environment) {
  return ChangeJobs(a, environment, JobChange::kSave);
}
absl::Status Profile(const Arguments& a, const Environment& environment) {
  return ChangeJobs(a, environment, JobChange::kProfile);
}
absl::Status Stacks(const Arguments& a, const Environment& environment) {
  return ChangeJobs(a, environment, JobChange::kStacks);
}
absl::Status Drain(const Arguments& a, const Environment& environment) {
  return ChangeJobs(a, environment, JobChange::kDrain);
}
absl::Status Stop(const Arguments& a, const Environment& environment) {
  return ChangeJobs(a, environment, JobChange::kStop);
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
    const bool alive = IsAlive(run);  // checked before reading, so that everything written until the end is shown
    bool any = false;
    RETURN_IF_ERROR(CopyNew(log, any));
    ASSIGN_OR_RETURN(const std::vector<int> generations, LogGenerations(folder, rank));
    if (generations.back() > log.generation()) {
      RETURN_IF_ERROR(log.Open(generations.back()));
      PrintToUser(absl::StrCat("generation ", log.generation()));
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
        run->job, " is not a YAML job and keeps no logs of its own: see --log-dir and --redirects of its launch"));
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
  const char* job;  // its place in the usage
  const char* help;
};

constexpr char kWhich[] = " JOB is a run name, a run folder or the launcher's pid";

const std::map<std::string, Command, std::less<>>& Commands() {
  static const auto& commands = *new std::map<std::string, Command, std::less<>>{
      {"status",
       {StatusOptions, Status, "[JOB]", "Shows how a job is doing: nodes, ranks, step, restarts, last cause."}},
      {"top",
       {TopOptions, Top, "[JOB]",
        "Shows the ranks of a job each second; s saves a checkpoint, p profiles, t writes stacks, d drains, q quits."}},
      {"save", {SaveOptions, Save, "JOB", "Lets a job save a checkpoint after its next step and go on."}},
      {"profile",
       {InspectOptions, Profile, "JOB", "Lets a job profile its next batches and go on; see docs/profiling.md."}},
      {"stacks", {InspectOptions, Stacks, "JOB", "Lets the ranks of this node write what each of their threads does."}},
      {"drain", {EndOptions, Drain, "JOB", "Lets a job save a checkpoint and stop, as SIGTERM does."}},
      {"stop", {EndOptions, Stop, "JOB", "Ends a job now, without a checkpoint."}},
      {"logs", {LogsOptions, Logs, "[JOB]", "Prints the output of a rank of a YAML job."}}};
  return commands;
}

std::vector<Option> TableOf(const Command& command, Arguments& arguments) {
  std::vector<Option> table = command.options(arguments);
  for (Option& option : CommonOptions(arguments)) table.push_back(std::move(option));
  return table;
}

}  // namespace

std::vector<Option> ControlCommandOptions(const std::string& name) {
  Arguments unused;
  return TableOf(Commands().find(name)->second, unused);
}

std::string RunningJobs(const Environment& environment) {
  std::string text;
  const absl::StatusOr<std::string> registry = RegistryFolder(environment);
  if (!registry.ok()) return text;
  for (const RunFile& run : ListRuns(*registry)) absl::StrAppend(&text, Printable(run.job), "\n");
  return text;
}

int RunControlCommand(const std::string& name, const std::vector<std::string>& words, const Environment& environment) {
  const Command& command = Commands().find(name)->second;
  Arguments arguments;
  const std::vector<Option> table = TableOf(command, arguments);
  const absl::Status parsed = Parse(table, words, environment, arguments.job);
  if (!parsed.ok()) return ExitCode(parsed);
  if (arguments.help) {
    const bool guesses = command.job[0] == '[';
    return PrintHelp(
        CommandHelp(absl::StrCat("composer ", name, " [flags] ", command.job),
                    absl::StrCat(command.help, kWhich, guesses ? "; without it, your only job here is meant." : "."),
                    table, HelpColumns()));
  }
  return ExitCode(command.run(arguments, environment));
}

}  // namespace composer
