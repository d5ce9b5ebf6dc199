// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_plan.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "config/config_changes.h"
#include "config/effective_config.h"
#include "config/job_check.h"
#include "config/job_identity.h"
#include "launcher/workers/node_resources.h"

namespace composer {
namespace {

constexpr char kDefaultLogDir[] = "logs";

// Returns the Mosaic platform's file, which overrides the user's.
std::string PlatformFile(const Environment& environment) {
  const auto get = [&](const char* name) {
    const std::string value = environment.GetOr(name, "");
    return absl::AsciiStrToLower(value) == "false" ? "" : value;
  };
  const std::string folder = get("MOSAICML_LOG_DIR"), prefix = get("MOSAICML_GPU_LOG_FILE_PREFIX");
  if (absl::AsciiStrToLower(get("MOSAICML_PLATFORM")) != "true" || folder.empty() || prefix.empty()) return "";
  return absl::StrCat(folder, "/", prefix, "{local_rank}.txt");
}

// Replaces a value that became known, or adds it.
void Settle(std::vector<OptionValue>& values, const OptionValue& settled) {
  for (OptionValue& v : values) {
    if (v.name == settled.name) {
      v = settled;
      return;
    }
  }
  values.push_back(settled);
}

void SettleDefault(LaunchPlan& plan, const LaunchOptions& options, absl::string_view name, int value,
                   absl::string_view origin) {
  if (options.Given(name) == nullptr) {
    Settle(plan.values, {std::string(name), absl::StrCat(value), std::string(origin)});
  }
}

// A program cannot be asked for a checkpoint, so new nodes wait for the next failure unless the user says that it may
// be killed at any time.
absl::Status Growth(const LaunchOptions& options, LaunchPlan& plan) {
  const std::string text = !options.grow.empty() ? options.grow : plan.job ? "checkpoint" : "never";
  if (!ParseGrowPolicy(text, &plan.grow)) return absl::InvalidArgumentError(absl::StrCat("grow is `", text, "`"));
  if (options.grow.empty()) Settle(plan.values, {"grow", text, plan.job ? "default for YAML jobs" : "default"});
  if (plan.job || plan.grow != GrowPolicy::kAtCheckpoint) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--grow checkpoint is for YAML jobs: a program cannot be asked for a checkpoint; give `now` (it is ended and "
      "started again when nodes come) or `never`");
}

void Group(const LaunchOptions& options, const PlatformShape& platform, LaunchPlan& plan) {
  plan.node_group = options.node_group;
  if (!plan.node_group.empty() || platform.node_group.empty()) return;
  plan.node_group = platform.node_group;
  Settle(plan.values, {"node-group", plan.node_group, platform.name});
}

absl::Status Shape(const LaunchOptions& options, int job_nproc, const Environment& environment,
                   const PlatformShape& platform, LaunchPlan& plan) {
  ASSIGN_OR_RETURN(plan.shape, DecideShape({.options = options,
                                            .local_world_size = environment.GetOr("LOCAL_WORLD_SIZE", ""),
                                            .job_nproc = job_nproc,
                                            .gpus = VisibleGpus(environment),
                                            .cpus = static_cast<int>(AllowedCpus().size()),
                                            .platform = platform}));
  for (const OptionValue& value : plan.shape.values) Settle(plan.values, value);
  return absl::OkStatus();
}

// Adds every setting of the job that is in force.
void ExplainJob(const JobIdentity& identity, LaunchPlan& plan) {
  const ConfigNode effective = EffectiveConfig(identity.document, identity.plugins.schema);
  plan.values.push_back(
      {"run_name", plan.run_name,
       effective.Find("run_name") == nullptr ? "default" : effective.Find("run_name")->mark.ToString()});
  plan.values.push_back({"run_folder", plan.run_folder, effective.Find("run_folder")->mark.ToString()});
  for (const Setting& setting : ListSettings(effective)) {
    if (setting.path != "run_name" && setting.path != "run_folder")
      plan.values.push_back({setting.path, setting.value, setting.origin});
  }
}

absl::Status PlanJob(const LaunchOptions& options, const Program& program, const Environment& environment,
                     const PlatformShape& platform, LaunchPlan& plan) {
  ASSIGN_OR_RETURN(const JobIdentity identity, ReadJobIdentity(program.yaml, program.overrides, environment));
  if (access(program.argv[0].c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(program.argv[0], " is missing: it belongs beside composer and runs YAML jobs"));
  }
  plan.job = true;
  plan.run_name = identity.run_name;
  plan.name = options.rdzv_id.empty() || options.rdzv_id == "none" ? identity.run_name : options.rdzv_id;
  plan.run_folder = identity.run_folder;
  plan.config_hash = identity.config_hash;
  plan.plugin_hash = identity.plugins.hash;
  plan.peer_memory = identity.peer_memory;
  plan.data_paths = identity.data_paths;
  plan.argv = program.argv;
  plan.argv.insert(plan.argv.begin() + 1, absl::StrCat("--run_folder=", identity.run_folder));
  plan.max_restarts = options.max_restarts >= 0 ? options.max_restarts : identity.max_restarts;
  SettleDefault(plan, options, "max-restarts", plan.max_restarts, "the YAML file or its default");
  plan.startup_limits = identity.startup_limits;
  plan.job_file = program.yaml;
  plan.any_job_file = MayChange(identity.resume_changes, "job_file");
  RETURN_IF_ERROR(Shape(options, identity.nproc, environment, platform, plan));
  RETURN_IF_ERROR(CheckJob(identity.document, {identity.plugins.schema, identity.plugins.open_names,
                                               plan.shape.slots * plan.shape.max_nodes}));
  if (options.explain) ExplainJob(identity, plan);
  return absl::OkStatus();
}

// A command that only uses a job's model is a program to the launcher: it has no run folder and is not restarted.
absl::Status CheckJobCommand(const Program& program, const JobIdentity& identity, const LaunchShape& shape) {
  if (access(program.argv[0].c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(program.argv[0], " is missing: it belongs beside composer and runs YAML jobs"));
  }
  return CheckJob(identity.document, {identity.plugins.schema, identity.plugins.open_names,
                                      shape.slots * shape.max_nodes, /*trains=*/false});
}

absl::Status PlanProgram(const LaunchOptions& options, const Program& program, const Environment& environment,
                         const PlatformShape& platform, LaunchPlan& plan) {
  JobIdentity identity;
  const bool is_command = program.kind == Program::Kind::kJobCommand;
  if (is_command) {
    ASSIGN_OR_RETURN(identity, ReadJobIdentity(program.yaml, program.overrides, environment));
  }
  RETURN_IF_ERROR(Shape(options, identity.nproc, environment, platform, plan));
  if (is_command) RETURN_IF_ERROR(CheckJobCommand(program, identity, plan.shape));
  plan.argv = program.argv;
  if (options.expand_vars) plan.first_argument = program.first_argument;
  // All nodes must use the same name; on one node, two launches of one program are two jobs.
  plan.name = BaseName(options.words.empty() ? program.argv[0] : options.words[0]);
  if (plan.shape.one_node()) absl::StrAppend(&plan.name, "-", getpid());
  if (!options.rdzv_id.empty() && options.rdzv_id != "none") plan.name = options.rdzv_id;
  if (FirstBadUtf8(plan.name) != absl::string_view::npos) plan.name = absl::CHexEscape(plan.name);
  plan.max_restarts = std::max(0, options.max_restarts);
  SettleDefault(plan, options, "max-restarts", plan.max_restarts, "default");
  return absl::OkStatus();
}

std::string NodesText(const LaunchShape& shape) {
  std::string text = shape.min_nodes == shape.max_nodes ? absl::StrCat(shape.max_nodes)
                                                        : absl::StrCat(shape.min_nodes, " to ", shape.max_nodes);
  absl::StrAppend(&text, " nodes, this is ",
                  shape.node_rank >= 0 ? absl::StrCat("node ", shape.node_rank) : "numbered as they come");
  const char* hosting = shape.hosting == Hosting::kYes  ? "served here"
                        : shape.hosting == Hosting::kNo ? "served there"
                                                        : "served by the machine that has this address";
  return absl::StrCat(text, "\nrendezvous: ", shape.endpoints[0].ToString(), ", ", hosting, "\n");
}

}  // namespace

absl::StatusOr<LaunchPlan> MakeLaunchPlan(const LaunchOptions& options, const Program& program,
                                          const Environment& environment, const PlatformShape& platform) {
  LaunchPlan plan;
  plan.values = options.values;
  plan.role = options.role;
  RETURN_IF_ERROR(
      (program.kind == Program::Kind::kJob ? PlanJob : PlanProgram)(options, program, environment, platform, plan));
  RETURN_IF_ERROR(SetStartupLimits(options.startup_limits, plan.startup_limits));
  RETURN_IF_ERROR(Growth(options, plan));
  Group(options, platform, plan);
  ASSIGN_OR_RETURN(plan.output, MakeOutputOptions(options, plan.name, plan.job, environment));
  return plan;
}

std::string DescribePlan(const LaunchPlan& plan) {
  std::string text = absl::StrCat(plan.shape.slots, " workers: ", absl::StrJoin(plan.argv, " "), "\n");
  if (!plan.shape.one_node()) absl::StrAppend(&text, NodesText(plan.shape));
  if (plan.job) absl::StrAppend(&text, "run folder: ", plan.run_folder, "\n");
  absl::StrAppend(&text, "restarts without progress: ", plan.max_restarts, "\n");
  return text;
}

absl::StatusOr<OutputOptions> MakeOutputOptions(const LaunchOptions& options, const std::string& job, bool keeps_logs,
                                                const Environment& environment) {
  OutputOptions result = {.stdout_file = options.stdout_file,
                          .stderr_file = options.stderr_file,
                          .log_dir = options.log_dir,
                          .job = job,
                          .keeps_logs = keeps_logs,
                          .redirects = options.redirects,
                          .tee = options.tee,
                          .tee_to_files = !options.log_dir.empty(),
                          .local_ranks_filter = options.local_ranks_filter};
  const bool redirects = result.redirects.all != 0 || !result.redirects.one.empty();
  if (redirects && result.log_dir.empty()) result.log_dir = kDefaultLogDir;
  if (!result.log_dir.empty()) result.log_dir = AbsolutePath(result.log_dir);
  for (const auto& [flag, text] : {std::pair("--stdout", options.stdout_file), {"--stderr", options.stderr_file}}) {
    const absl::Status status = FormatFileName(text, {}).status();
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": `", text, "`: ", status.message()));
  }
  const std::string platform = PlatformFile(environment);
  if (!platform.empty()) result.stdout_file = result.stderr_file = platform;
  return result;
}

}  // namespace composer
