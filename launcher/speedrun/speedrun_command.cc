// SPDX-License-Identifier: Apache-2.0
#include "launcher/speedrun/speedrun_command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/line_file.h"
#include "base/nearest_name.h"
#include "base/option_help.h"
#include "base/options.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "contract/exit_code.h"
#include "launcher/options/print_help.h"
#include "launcher/process/process_spec.h"
#include "launcher/speedrun/speedrun_jobs.h"
#include "launcher/speedrun/speedrun_lines.h"
#include "storage/checksum.h"
#include "views/read/metrics_reader.h"

namespace composer {
namespace {

constexpr SpeedrunTask kTasks[] = {
    {"fashion", "metrics/eval/MulticlassAccuracy", false, "0.93", kFashionPlainJob, kFashionRecipeJob},
    {"gpt", "metrics/eval/LanguageCrossEntropy", true, "1.80", kGptPlainJob, kGptRecipeJob},
    {"bert", "metrics/eval/LanguageCrossEntropy", true, "4.70", kBertPlainJob, kBertRecipeJob}};

struct SpeedrunOptions {
  int seeds = 10, first_seed = 1;
  std::string folder = "speedrun", arm = "both", quality, program;
  bool json = false, help = false;
  const SpeedrunTask* task = nullptr;
  std::vector<std::string> overrides;  // key=value, of both arms
  Environment environment;             // of the runs
};

std::vector<Option> OptionsInto(SpeedrunOptions& options) {
  return {Valued("seeds", "N", "runs of each arm", "10", IntoInt(&options.seeds, 1, 10000)),
          Valued("first-seed", "N", "the seed of the first run; the others follow", "1",
                 IntoInt(&options.first_seed, 0, 1000000)),
          Valued("folder", "FOLDER", "where runs and TASK.jsonl are; finished runs there are not repeated", "speedrun",
                 IntoString(&options.folder)),
          {.name = "arm",
           .metavar = "ARM",
           .help = "recipe, plain or both",
           .fallback = "both",
           .set = IntoChoice(&options.arm, {"recipe", "plain", "both"}),
           .choices = {"recipe", "plain", "both"}},
          Valued("quality", "X",
                 "what the metric is to reach in an evaluation (fashion: accuracy 0.93; gpt: loss 1.80; bert: 4.70)",
                 "", IntoString(&options.quality)),
          Switch("json", "print the result as JSON", IntoBool(&options.json)),
          HelpSwitch(&options.help)};
}

// Flags may stand anywhere; of the other words the first is the task and the rest are key=value.
absl::Status TakeWords(std::vector<std::string> words, SpeedrunOptions& options, const Environment& environment) {
  const std::vector<Option> table = OptionsInto(options);
  std::vector<std::string> others;
  while (!words.empty()) {
    ASSIGN_OR_RETURN(const ParsedOptions parsed, ParseOptions(table, words, environment));
    if (parsed.rest.empty()) break;
    others.push_back(parsed.rest[0]);
    words.assign(parsed.rest.begin() + 1, parsed.rest.end());
  }
  if (options.help) return absl::OkStatus();
  const std::string name = others.empty() ? "" : others[0];
  for (const SpeedrunTask& task : kTasks) {
    if (name == task.name) options.task = &task;
  }
  if (options.task == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("speedrun takes one of fashion, gpt and bert",
                                                   name.empty() ? "" : absl::StrCat(", not `", name, "`"),
                                                   DidYouMean(name, {"fashion", "gpt", "bert"})));
  options.overrides.assign(others.begin() + 1, others.end());
  for (const std::string& change : options.overrides) {
    if (!absl::StrContains(change, '='))
      return absl::InvalidArgumentError(absl::StrCat("`", change, "` is not a change of the jobs, key=value"));
  }
  if (options.quality.empty()) options.quality = options.task->quality;
  if (double quality = 0; !absl::SimpleAtod(options.quality, &quality))
    return absl::InvalidArgumentError(absl::StrCat("--quality ", options.quality, ": must be a number"));
  return absl::OkStatus();
}

struct Ended {
  ExitStatus exit;
  double cpu_seconds = 0, wall_seconds = 0;
};

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Runs a program to its end; what it prints goes to the file. Its CPU time includes that of the processes which it
// waited for. If this process ends before, the program gets SIGTERM.
absl::StatusOr<Ended> RunProgram(const std::vector<std::string>& argv, const Environment& environment,
                                 const std::string& log) {
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) return ErrnoStatus(errno, "create", log);
  const absl::Time begin = absl::Now();
  const absl::StatusOr<pid_t> pid =
      SpawnProcess({.argv = argv, .environment = environment.ToStrings(), .keeps_session = true}, output, output);
  close(output);
  RETURN_IF_ERROR(pid.status());
  int status = 0;
  rusage usage{};
  while (wait4(*pid, &status, 0, &usage) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for", argv[0]);
  }
  return Ended{ExitStatus::FromWait(status), SecondsOf(usage.ru_utime) + SecondsOf(usage.ru_stime),
               absl::ToDoubleSeconds(absl::Now() - begin)};
}

// One arm's job as it is run, but for the seed.
struct ArmJob {
  std::string arm, file, checksum;
  std::vector<std::string> changes;
};

absl::StatusOr<ArmJob> WriteJob(const SpeedrunOptions& options, const std::string& arm) {
  const std::string text = arm == "plain" ? options.task->plain : options.task->recipe;
  ArmJob job{arm, JoinPath(options.folder, absl::StrCat(options.task->name, "-", arm, ".yaml")), "", {}};
  RETURN_IF_ERROR(AtomicWriteFile(job.file, text));
  job.changes = options.overrides;
  job.changes.push_back(absl::StrCat("callbacks.threshold_stopper.threshold=", options.quality));
  job.checksum = ChecksumText(Xxh3(absl::StrCat(text, "\n", absl::StrJoin(job.changes, "\n"))));
  return job;
}

// Sets value and steps of the line by the run's last evaluation.
absl::Status TakeLastEvaluation(const SpeedrunTask& task, const std::string& run, double quality, SpeedrunLine& line) {
  MetricsReader reader({.path = JoinPath(run, "metrics.jsonl"), .names = {task.metric}});
  RETURN_IF_ERROR(reader.Poll());
  const MetricSeries* series = reader.Find(task.metric);
  if (series == nullptr || series->values.empty())
    return absl::DataLossError(absl::StrCat(run, ": the run has not evaluated ", task.metric));
  line.value = series->values.back();
  line.steps = reader.rows()[series->rows.back()].batch;
  line.reached = task.less_is_better ? line.value < quality : line.value > quality;
  return absl::OkStatus();
}

// Runs one job and returns its line. A folder that an interrupted run left is begun anew, since its time is unknown.
absl::StatusOr<SpeedrunLine> RunOnce(const SpeedrunOptions& options, const ArmJob& job, int seed, ExitStatus& exit) {
  SpeedrunLine line;
  line.task = options.task->name;
  line.arm = job.arm;
  line.seed = seed;
  line.job = job.checksum;
  const std::string name = absl::StrCat(line.task, "-", line.arm, "-", seed), run = JoinPath(options.folder, name);
  RETURN_IF_ERROR(RemoveTree(run));
  std::vector<std::string> argv = {options.program, "-n", "1", job.file};
  for (const std::string& change : job.changes) argv.push_back(change);
  for (const std::string& own :
       {absl::StrCat("seed=", seed), absl::StrCat("run_name=", name), absl::StrCat("run_folder=", AbsolutePath(run))})
    argv.push_back(own);
  ASSIGN_OR_RETURN(const Ended ended, RunProgram(argv, options.environment, absl::StrCat(run, ".log")));
  exit = ended.exit;
  if (!exit.ok())
    return absl::AbortedError(absl::StrCat(name, " ", exit.ToString(), "; what it printed is in ", run, ".log"));
  line.cpu_seconds = ended.cpu_seconds;
  line.wall_seconds = ended.wall_seconds;
  line.finished = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  double quality = 0;
  (void)absl::SimpleAtod(options.quality, &quality);
  RETURN_IF_ERROR(TakeLastEvaluation(*options.task, run, quality, line));
  RETURN_IF_ERROR(RemoveTree(run));
  RETURN_IF_ERROR(RemoveFile(absl::StrCat(run, ".log")));
  return line;
}

// Adds the lines of these jobs to `ours`, those of earlier commands included.
absl::Status RunAll(const SpeedrunOptions& options, std::vector<SpeedrunLine>& ours, ExitStatus& exit) {
  RETURN_IF_ERROR(MakeDirs(options.folder));
  const std::string path = JoinPath(options.folder, absl::StrCat(options.task->name, ".jsonl"));
  ASSIGN_OR_RETURN(const std::vector<SpeedrunLine> before, ReadSpeedrunLines(path));
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  std::vector<ArmJob> jobs;
  for (const char* arm : {"plain", "recipe"}) {
    ASSIGN_OR_RETURN(ArmJob job, WriteJob(options, arm));
    for (const SpeedrunLine& line : before) {
      if (line.arm == arm && line.job == job.checksum) ours.push_back(line);
    }
    if (options.arm == "both" || options.arm == arm) jobs.push_back(std::move(job));
  }
  for (int seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    for (const ArmJob& job : jobs) {
      const auto is_this = [&](const SpeedrunLine& line) { return line.arm == job.arm && line.seed == seed; };
      if (std::any_of(ours.begin(), ours.end(), is_this)) continue;
      ASSIGN_OR_RETURN(const SpeedrunLine line, RunOnce(options, job, seed, exit));
      RETURN_IF_ERROR(file.Append(SpeedrunJson(line) + "\n"));
      ours.push_back(line);
      absl::FPrintF(stderr, "%s seed %d: %s %.4f after %d steps, %.1f s of CPU time\n", job.arm, seed,
                    line.reached ? "reached" : "only", line.value, line.steps, line.cpu_seconds);
    }
  }
  return absl::OkStatus();
}

}  // namespace

int SpeedrunCommand(const std::vector<std::string>& arguments, const Environment& environment,
                    const std::string& worker_path) {
  SpeedrunOptions options;
  options.program = JoinPath(DirName(worker_path), "composer");
  options.environment = environment;
  options.environment.Set("OMP_NUM_THREADS", "1");
  if (const absl::Status taken = TakeWords(arguments, options, environment); !taken.ok())
    return UserError(taken.message());
  if (options.help) {
    return PrintHelp(CommandHelp("composer speedrun fashion|gpt|bert [flags] [key=value ...]",
                                 "Trains a plain job and a recipe to the same quality, once for each seed, and "
                                 "compares steps and CPU time. key=value changes both jobs.",
                                 OptionsInto(options), HelpColumns()));
  }
  std::vector<SpeedrunLine> lines;
  ExitStatus exit;
  if (const absl::Status run = RunAll(options, lines, exit); !run.ok()) {
    PrintErrorToUser(run.message());
    return exit.ok() ? exit_code::kUserError : exit.ShellCode();
  }
  const SpeedrunComparison comparison = CompareArms(lines);
  const std::string goal =
      absl::StrCat(options.task->metric, options.task->less_is_better ? " < " : " > ", options.quality);
  return PrintHelp(options.json ? SpeedrunSummaryJson(comparison, options.task->name) + "\n"
                                : SpeedrunTable(comparison, goal));
}

}  // namespace composer
