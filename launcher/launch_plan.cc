// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_plan.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/job_identity.h"
#include "launcher/node_resources.h"

namespace composer {
namespace {

// Replaces a default that became known, with where it came from.
void Settle(std::vector<OptionValue>& values, absl::string_view name, int value, absl::string_view origin) {
  for (OptionValue& v : values) {
    if (v.name == name && v.origin == "default") v = {v.name, absl::StrCat(value), std::string(origin)};
  }
}

void ChooseWorkers(const LaunchOptions& options, const JobIdentity& identity, const Environment& environment,
                   LaunchPlan& plan) {
  const int gpus = VisibleGpus(environment);
  plan.nproc = options.nproc > 0 ? options.nproc : identity.nproc > 0 ? identity.nproc : std::max(1, gpus);
  const char* origin = identity.nproc > 0 ? "the YAML file" : gpus > 0 ? "one a GPU" : "default";
  Settle(plan.values, "nproc", plan.nproc, origin);
}

absl::Status PlanJob(const LaunchOptions& options, const Program& program, const Environment& environment,
                     LaunchPlan& plan) {
  ASSIGN_OR_RETURN(const JobIdentity identity, ReadJobIdentity(program.yaml, program.overrides, environment));
  if (access(program.argv[0].c_str(), X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(program.argv[0], " is missing: it belongs beside composer and runs YAML jobs"));
  }
  plan.job = true;
  plan.name = plan.run_name = identity.run_name;
  plan.run_folder = identity.run_folder;
  plan.config_hash = identity.config_hash;
  plan.argv = program.argv;
  plan.argv.insert(plan.argv.begin() + 1, absl::StrCat("--run_folder=", identity.run_folder));
  plan.max_restarts = options.max_restarts >= 0 ? options.max_restarts : identity.max_restarts;
  Settle(plan.values, "max-restarts", plan.max_restarts, "the YAML file or its default");
  plan.values.push_back({"run_name", plan.run_name, "the YAML file or its default"});
  plan.values.push_back({"run_folder", plan.run_folder, "the YAML file or its default"});
  ChooseWorkers(options, identity, environment, plan);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchPlan> MakeLaunchPlan(const LaunchOptions& options, const Program& program,
                                          const Environment& environment) {
  LaunchPlan plan;
  plan.values = options.values;
  if (program.kind == Program::Kind::kJob) {
    RETURN_IF_ERROR(PlanJob(options, program, environment, plan));
    return plan;
  }
  plan.name = absl::StrCat(BaseName(program.argv[0]), "-", getpid());
  plan.argv = program.argv;
  plan.max_restarts = std::max(0, options.max_restarts);
  Settle(plan.values, "max-restarts", plan.max_restarts, "default");
  ChooseWorkers(options, {}, environment, plan);
  return plan;
}

std::string DescribePlan(const LaunchPlan& plan) {
  std::string text = absl::StrCat(plan.nproc, " workers: ", absl::StrJoin(plan.argv, " "), "\n");
  if (plan.job) absl::StrAppend(&text, "run folder: ", plan.run_folder, "\n");
  absl::StrAppend(&text, "restarts without progress: ", plan.max_restarts, "\n");
  return text;
}

}  // namespace composer
