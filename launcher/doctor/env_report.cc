// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/env_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/console.h"
#include "base/machine_stats.h"
#include "base/option_help.h"
#include "base/options.h"
#include "config/effective_config.h"
#include "contract/exit_code.h"
#include "launcher/options/print_help.h"
#include "launcher/platform/command_output.h"

namespace composer {
namespace {

constexpr size_t kMaxValue = 200;

bool IsShown(absl::string_view name) {
  for (const char* prefix : {"COMPOSER_",
                             "OMP_",
                             "MKL_",
                             "NCCL_",
                             "GLOO_",
                             "CUDA_",
                             "TORCH_",
                             "PYTORCH_",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_",
                             "NODE_RANK",
                             "MASTER_",
                             "SLURM_JOB_NUM_NODES",
                             "SLURM_NTASKS",
                             "KUBERNETES_SERVICE_PORT",
                             "LD_LIBRARY_PATH",
                             "LD_PRELOAD",
                             "AWS_",
                             "GOOGLE_"})
    if (absl::StartsWith(name, prefix)) return true;
  return false;
}

// Returns what may be shown of a value: "https://me:word@host/x" without "me:word@".
std::string Shown(absl::string_view name, std::string value) {
  if (IsSecretKey(name) || absl::StrContains(name, "TOKEN") || absl::StrContains(name, "SECRET") ||
      absl::StrContains(name, "KEY"))
    return "(set)";
  for (size_t scheme = value.find("://"); scheme != std::string::npos; scheme = value.find("://", scheme + 3)) {
    const size_t begin = scheme + 3, end = std::min(value.find_first_of("/ ", begin), value.size());
    const size_t at = value.substr(begin, end - begin).rfind('@');
    if (at != std::string::npos) value.erase(begin, at + 1);
  }
  return absl::CHexEscape(value.substr(0, kMaxValue));
}

std::string Gpus(const DriverFacts& driver) {
  std::map<std::string, int> kinds;
  for (const auto& gpu : driver.gpus)
    ++kinds[absl::StrFormat("%s, %.0f GiB", gpu.name, static_cast<double>(gpu.memory_bytes) / (int64_t{1} << 30))];
  if (kinds.empty()) return "none";
  return absl::StrJoin(
      kinds, "; ", [](std::string* out, const auto& kind) { absl::StrAppend(out, kind.second, " x ", kind.first); });
}

ProgramFacts GatherPrograms(const DoctorFacts& machine, const Environment& environment) {
  ProgramFacts facts;
  const MachineNames names = ReadMachineNames();
  facts.os = names.os.empty() ? "unknown" : names.os;
  facts.processor = names.processor.empty() ? "unknown" : names.processor;
  if (machine.worker_path.empty()) {
    facts.worker_version = "composer_worker is missing beside composer";
    return facts;
  }
  absl::StatusOr<std::string> said = CommandOutput({machine.worker_path, "version"}, environment, absl::Seconds(30));
  facts.worker_version = said.ok() ? *std::move(said) : std::string(said.status().message());
  return facts;
}

}  // namespace

std::string EnvironmentReport(const DoctorFacts& machine, const ProgramFacts& programs,
                              const Environment& environment) {
  std::string text;
  const auto add = [&](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text, "%-14s %s\n", absl::StrCat(name, ":"), absl::CHexEscape(value));
  };
  constexpr double kBytesPerGiB = int64_t{1} << 30;
  add("composer", COMPOSER_VERSION);
  add("compiler", __VERSION__);
  for (absl::string_view line : absl::StrSplit(programs.worker_version, '\n', absl::SkipWhitespace())) {
    add("worker", line);
  }
  add("system", absl::StrCat(programs.os, ", Linux ", machine.kernel));
  add("processor", absl::StrCat(programs.processor, ", ", machine.cpus, " CPUs allowed",
                                machine.cpu_quota > 0 ? absl::StrCat(", quota of ", machine.cpu_quota) : ""));
  add("memory",
      absl::StrFormat(
          "%.1f GiB, %.1f free%s", machine.memory_bytes / kBytesPerGiB, machine.memory_available / kBytesPerGiB,
          machine.memory_limit > 0 ? absl::StrFormat(", limited to %.1f", machine.memory_limit / kBytesPerGiB) : ""));
  add("/dev/shm", machine.shm_bytes < 0 ? "none" : absl::StrFormat("%.1f GiB", machine.shm_bytes / kBytesPerGiB));
  add("gpus", Gpus(machine.nvml));
  if (!machine.nvml.driver.empty()) add("driver", machine.nvml.driver);
  add("nccl", machine.nccl.empty() ? "none" : machine.nccl);
  add("infiniband", machine.infiniband.empty() ? "none" : absl::StrJoin(machine.infiniband, "; "));
  add("batch system", machine.batch_system.empty() ? "none" : machine.batch_system);
  for (const auto& [name, value] : environment.variables()) {
    if (IsShown(name))
      absl::StrAppend(&text, absl::CHexEscape(name.substr(0, kMaxValue)), "=", Shown(name, value), "\n");
  }
  return text;
}

std::string GatherEnvironmentReport(const Environment& environment) {
  const DoctorFacts machine = GatherDoctorFacts(environment, environment.GetOr("TMPDIR", "/tmp"), nullptr);
  return EnvironmentReport(machine, GatherPrograms(machine, environment), environment);
}

int EnvCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  bool help = false;
  const std::vector<Option> table = {HelpSwitch(&help)};
  const auto parsed = ParseOptions(table, arguments, environment);
  if (!parsed.ok() || !parsed->rest.empty()) {
    PrintErrorToUser(parsed.ok() ? "env takes no arguments" : parsed.status().message());
    return exit_code::kUserError;
  }
  if (help) {
    return PrintHelp(CommandHelp("composer env", "Prints versions, machine and variables, to paste into a report.",
                                 table, HelpColumns()));
  }
  std::fputs(GatherEnvironmentReport(environment).c_str(), stdout);
  std::fflush(stdout);
  return exit_code::kDone;
}

}  // namespace composer
