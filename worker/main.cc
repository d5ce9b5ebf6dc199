// composer_worker: one rank of a job, and the tools that need LibTorch. Started by `composer`; also runs alone, as a
// world of one.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/printable.h"
#include "checkpoint/tools/tools.h"
#include "config/job_command.h"
#include "data/tools/data_tool.h"
#include "data/tools/tokenize_tool.h"
#include "data/tools/train_tokenizer_tool.h"
#include "job/run/validate.h"
#include "storage/open_store.h"
#include "trainer/profiler/trace_tool.h"
#include "worker/exit_codes.h"
#include "worker/model_export_command.h"
#include "worker/plan_command.h"
#include "worker/show_data.h"
#include "worker/store_command.h"
#include "worker/worker.h"

namespace composer {
namespace {

constexpr char kUsage[] =
    "usage: composer_worker [--run_folder=DIR] job.yaml [key=value ...]\n"
    "       composer_worker eval|predict|generate job.yaml [checkpoint] [flags] [key=value ...]\n"
    "       composer_worker validate job.yaml [key=value ...]\n"
    "       composer_worker plan job.yaml [-n N] [--gpu NAME] [key=value ...]\n"
    "       composer_worker checkpoint list|show|verify|diff|export|import|prune PATH ...\n"
    "       composer_worker data write|inspect|verify|stats|bench|merge PATH ...\n"
    "       composer_worker data show job.yaml [flags] [key=value ...]\n"
    "       composer_worker tokenize [flags] PATH < TEXT\n"
    "       composer_worker tokenizer train [flags] FOLDER < TEXT\n"
    "       composer_worker store check PLACE\n"
    "       composer_worker trace merge FOLDER [OUTPUT]\n"
    "       composer_worker version\n";

constexpr char kValidateHelp[] =
    "usage: composer validate job.yaml [key=value ...]\n\n"
    "Checks a YAML file with its overrides without running it: every unknown key and\n"
    "wrong value is named with its place. Exit code 0: valid; 64: not.\n";

// Returns whether help is requested, in place of a job file or after it.
bool AsksForHelp(const std::vector<std::string>& args) {
  return std::any_of(args.begin(), args.end(), [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
}

int Usage() {
  std::fputs(kUsage, stderr);
  return exit_code::kUserError;
}

absl::StatusOr<JobSource> ParseJobSource(const std::vector<std::string>& args) {
  JobSource source;
  for (const std::string& arg : args) {
    absl::string_view value = arg;
    if (absl::ConsumePrefix(&value, "--run_folder=")) {
      source.run_folder = std::string(value);
    } else if (absl::StartsWith(arg, "--")) {
      return absl::InvalidArgumentError(absl::StrFormat("unknown flag %s", arg));
    } else if (source.yaml_path.empty()) {
      source.yaml_path = arg;
    } else {
      source.overrides.push_back(arg);
    }
  }
  if (source.yaml_path.empty()) return absl::InvalidArgumentError("no job file given");
  return source;
}

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "error: %s\n", PrintableText(status.message()));
  return ExitCodeFor(status.code());
}

int UseModelOf(const std::vector<std::string>& args, const Environment& env) {
  const absl::StatusOr<JobCommand> command = ParseJobCommand(args[0], {args.begin() + 1, args.end()});
  if (!command.ok()) return Fail(command.status());
  if (command->help) {
    std::fputs(JobCommandHelp(args[0]).c_str(), stdout);
    return exit_code::kDone;
  }
  JobSource source;
  source.yaml_path = command->yaml_path;
  source.overrides = command->overrides;
  source.trains = false;
  return RunWorker(source, env, &*command);
}

int Run(std::vector<std::string> args) {
  if (args.empty()) return Usage();
  const std::string command = args[0];
  const Environment env = Environment::FromProcess();
  if (command == "checkpoint" && AsksForModelExport({args.begin() + 1, args.end()}))
    return RunModelExport({args.begin() + 1, args.end()}, env, std::cout, std::cerr);
  if (command == "checkpoint") {
    const StoreOpener open = [&env](const std::string& place) { return OpenStore(place, env); };
    return RunCheckpointTool({args.begin() + 1, args.end()}, open, absl::Now(), std::cout, std::cerr);
  }
  if (command == "data" && args.size() > 1 && args[1] == "show")
    return RunShowData({args.begin() + 2, args.end()}, env, std::cout, std::cerr);
  if (command == "data") {
    const StoreOpener open = [&env](const std::string& place) { return OpenStore(place, env); };
    return RunDataTool({args.begin() + 1, args.end()}, open, OpenTokenCounter, std::cout, std::cerr);
  }
  if (command == "store") {
    const StoreOpener open = [&env](const std::string& place) { return OpenStore(place, env); };
    return RunStoreCommand({args.begin() + 1, args.end()}, open, std::cout, std::cerr);
  }
  if (command == "plan") return RunPlan({args.begin() + 1, args.end()}, env, std::cout, std::cerr);
  if (command == "version") {
    absl::PrintF("LibTorch %s, CPU capability %s\n", TORCH_VERSION, at::get_cpu_capability());
    return exit_code::kDone;
  }
  if (command == "tokenize") return RunTokenizeTool({args.begin() + 1, args.end()}, std::cin, std::cout, std::cerr);
  if (command == "tokenizer") return RunTokenizerTool({args.begin() + 1, args.end()}, std::cin, std::cout, std::cerr);
  if (command == "trace") return RunTraceTool({args.begin() + 1, args.end()}, std::cout, std::cerr);
  if (IsJobCommand(command)) return UseModelOf(args, env);
  if (AsksForHelp(args)) {
    std::fputs(command == "validate" ? kValidateHelp : kUsage, stdout);
    return exit_code::kDone;
  }
  if (command == "validate") args.erase(args.begin());
  const absl::StatusOr<JobSource> source = ParseJobSource(args);
  if (!source.ok()) {
    Fail(source.status());
    return Usage();
  }
  if (command != "validate") {
    FLAGS_minloglevel = google::GLOG_INFO;  // a few lines a run, from rank 0
    return RunWorker(*source, env);
  }
  const absl::StatusOr<std::string> found = ValidateJob(*source, env);
  if (!found.ok()) return Fail(found.status());
  absl::PrintF("%s: valid (%s)\n", source->yaml_path, *found);
  return exit_code::kDone;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  composer::InitLogging("composer_worker", /*min_severity=*/1);
  const int code = composer::Run({argv + 1, argv + argc});
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
}
