// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_environment.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/options/launch_options.h"
#include "launcher/platform/slurm_nodelist.h"

namespace composer {
namespace {

constexpr int kMaxTasks = 1'000'000;

absl::Status Wrong(absl::string_view name, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": `", value.substr(0, 200), "` ", why));
}

absl::StatusOr<std::string> Text(const Environment& environment, absl::string_view name) {
  const auto value = environment.Get(name);
  if (!value.has_value() || value->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SLURM_STEP_ID says that this is a task of a Slurm step, but ", name, " is not set"));
  }
  return *value;
}

absl::StatusOr<SlurmNumber> Number(const Environment& environment, absl::string_view name, int min, int max) {
  ASSIGN_OR_RETURN(const std::string text, Text(environment, name));
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < min || number > max) {
    return Wrong(name, text, absl::StrCat("must be a whole number from ", min, " to ", max));
  }
  return SlurmNumber{number, std::string(name)};
}

// Returns the first variable that is set, of several that hold the same value on different Slurm versions.
absl::string_view FirstSet(const Environment& environment, std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    if (!environment.GetOr(name, "").empty()) return name;
  }
  return *names.begin();
}

absl::Status ReadHosts(const Environment& environment, SlurmPlace& place) {
  place.hosts_origin = std::string(FirstSet(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}));
  ASSIGN_OR_RETURN(const std::string list, Text(environment, place.hosts_origin));
  auto hosts = ParseNodeList(list);
  if (!hosts.ok()) return Wrong(place.hosts_origin, list, absl::StrCat("cannot be read: ", hosts.status().message()));
  place.hosts = *std::move(hosts);
  ASSIGN_OR_RETURN(const SlurmNumber host,
                   Number(environment, "SLURM_NODEID", 0, static_cast<int>(place.hosts.size()) - 1));
  place.host = host.value;
  return absl::OkStatus();
}

// Returns the number of tasks of the step on this node.
absl::StatusOr<int> TasksHere(const Environment& environment, const SlurmPlace& place) {
  constexpr char kName[] = "SLURM_STEP_TASKS_PER_NODE";
  ASSIGN_OR_RETURN(const std::string text, Text(environment, kName));
  const auto counts = ParseTasksPerNode(text);
  if (!counts.ok()) return Wrong(kName, text, absl::StrCat("cannot be read: ", counts.status().message()));
  if (counts->size() != place.hosts.size()) {
    return Wrong(
        kName, text,
        absl::StrCat("speaks of ", counts->size(), " nodes, ", place.hosts_origin, " of ", place.hosts.size()));
  }
  const int64_t sum = std::accumulate(counts->begin(), counts->end(), int64_t{0});
  if (sum != place.nodes.value) {
    return Wrong(kName, text, absl::StrCat("makes ", sum, " tasks, ", place.nodes.origin, " is ", place.nodes.value));
  }
  return (*counts)[static_cast<size_t>(place.host)];
}

// Returns the GPUs of the step on this node; 0 if there are none or the variable is not a number.
int GpusOnNode(const Environment& environment) {
  int gpus = 0;
  return absl::SimpleAtoi(environment.GetOr("SLURM_GPUS_ON_NODE", ""), &gpus) && gpus > 0 && gpus <= 1024 ? gpus : 0;
}

void ShareGpus(const Environment& environment, int tasks, int local_id, int visible_gpus, SlurmPlace& place) {
  const int gpus = GpusOnNode(environment);
  if (gpus >= tasks) {
    place.slots = SlurmNumber{gpus / tasks, tasks == 1 ? "SLURM_GPUS_ON_NODE" : "SLURM_GPUS_ON_NODE / tasks"};
  } else if (tasks > 1) {
    place.slots = SlurmNumber{1, "SLURM_STEP_TASKS_PER_NODE"};
  }
  if (tasks == 1) return;
  const bool sees_own_only = visible_gpus > 0 && visible_gpus < tasks * place.slots->value;
  if (sees_own_only) return;
  place.first_local_rank = local_id * place.slots->value;
  place.local_world_size = tasks * place.slots->value;
}

// Returns all but the node of SLURM_TOPOLOGY_ADDR, which is "s0.s4.node1" where SLURM_TOPOLOGY_ADDR_PATTERN is
// "switch.switch.node".
std::string NodeGroup(const Environment& environment) {
  const std::string address = environment.GetOr("SLURM_TOPOLOGY_ADDR", "");
  const std::string pattern = environment.GetOr("SLURM_TOPOLOGY_ADDR_PATTERN", "");
  if (!absl::EndsWith(pattern, ".node")) return "";
  // A host name may contain dots, so as many parts are taken as the pattern has above the node.
  const auto levels = std::count(pattern.begin(), pattern.end(), '.');
  size_t end = 0;
  for (std::ptrdiff_t i = 0; i < levels; ++i) {
    end = address.find('.', end == 0 ? 0 : end + 1);
    if (end == std::string::npos) return "";
  }
  const bool printable =
      std::all_of(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(end), absl::ascii_isgraph);
  return end <= kMaxNodeGroupBytes && printable ? address.substr(0, end) : "";
}

}  // namespace

absl::StatusOr<std::optional<SlurmPlace>> ReadSlurmPlace(const Environment& environment, int visible_gpus) {
  if (environment.GetOr("SLURM_STEP_ID", "").empty() || environment.GetOr("SLURM_PROCID", "").empty()) {
    return std::optional<SlurmPlace>();
  }
  SlurmPlace place;
  const absl::string_view job_name = FirstSet(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  ASSIGN_OR_RETURN(const std::string job_id, Text(environment, job_name));
  if (!absl::SimpleAtoi(job_id, &place.job_id)) return Wrong(job_name, job_id, "is not a job id");
  constexpr int kMax = std::numeric_limits<int>::max();
  ASSIGN_OR_RETURN(const SlurmNumber step, Number(environment, "SLURM_STEP_ID", 0, kMax));
  place.step_id = step.value;
  ASSIGN_OR_RETURN(place.nodes,
                   Number(environment, FirstSet(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}), 1, kMaxTasks));
  ASSIGN_OR_RETURN(place.node_rank, Number(environment, "SLURM_PROCID", 0, place.nodes.value - 1));
  RETURN_IF_ERROR(ReadHosts(environment, place));
  ASSIGN_OR_RETURN(const int tasks, TasksHere(environment, place));
  ASSIGN_OR_RETURN(const SlurmNumber local_id, Number(environment, "SLURM_LOCALID", 0, tasks - 1));
  place.tasks_here = tasks;
  place.task = local_id.value;
  if (!environment.GetOr("SLURM_CPUS_ON_NODE", "").empty()) {
    ASSIGN_OR_RETURN(const SlurmNumber cpus, Number(environment, "SLURM_CPUS_ON_NODE", 1, kMax));
    place.cpus_on_host = cpus.value;
  }
  ShareGpus(environment, tasks, local_id.value, visible_gpus, place);
  if (!environment.GetOr("SLURM_RESTART_COUNT", "").empty()) {
    ASSIGN_OR_RETURN(const SlurmNumber restarts, Number(environment, "SLURM_RESTART_COUNT", 0, kMax));
    place.restarts = restarts.value;
  }
  place.node_group = NodeGroup(environment);
  // Steps of one job may run side by side on the same nodes, so the port depends on the step too.
  const uint64_t offset = (place.job_id + uint64_t{257} * static_cast<uint64_t>(place.step_id)) % kSlurmPorts;
  place.port = {kFirstSlurmPort + static_cast<int>(offset), "SLURM_JOB_ID"};
  return std::optional<SlurmPlace>(std::move(place));
}

CpuSharing ShareCpus(const SlurmPlace& place, int allowed_cpus, int workers_of_launcher) {
  const bool bound = allowed_cpus < place.cpus_on_host;
  if (bound || place.tasks_here <= 1) return {workers_of_launcher, 0};
  return {place.tasks_here * workers_of_launcher, place.task * workers_of_launcher};
}

std::string SlurmAdvice(const Environment& environment) {
  int nodes = 0;
  if (!environment.GetOr("SLURM_STEP_ID", "").empty()) return "";
  if (!absl::SimpleAtoi(environment.GetOr("SLURM_JOB_NUM_NODES", ""), &nodes) || nodes < 2) return "";
  return absl::StrCat("this Slurm job has ", nodes,
                      " nodes, but without srun before it composer runs on this one alone: srun --ntasks-per-node=1 "
                      "composer …");
}

}  // namespace composer
