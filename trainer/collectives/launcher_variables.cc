// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/launcher_variables.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

// Variables of Open MPI's mpirun, and of Hydra.
struct MpiVariables {
  const char *rank, *size, *local_rank, *local_size;
};
constexpr MpiVariables kMpi[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

constexpr int kFirstPort = 20000, kPorts = 12000;  // below the ports of outgoing connections

// Returns the first of the variables that is set and not empty.
std::string FirstOf(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string value = environment.GetOr(name, "");
    if (!value.empty()) return value;
  }
  return "";
}

int64_t Number(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) && number >= 0 ? number : 0;
}

void SetUnlessGiven(Environment& environment, const char* name, const std::string& value) {
  if (!value.empty() && environment.GetOr(name, "").empty()) environment.Set(name, value);
}

}  // namespace

std::string FirstSlurmHost(absl::string_view nodelist) {
  std::string host;
  for (size_t i = 0; i < nodelist.size() && nodelist[i] != ','; ++i) {
    if (nodelist[i] != '[') {
      host += nodelist[i];
      continue;
    }
    const size_t close = nodelist.find(']', i);
    const absl::string_view list = nodelist.substr(i + 1, close == absl::string_view::npos ? close : close - i - 1);
    absl::StrAppend(&host, list.substr(0, list.find_first_of("-,")));
    if (close == absl::string_view::npos) break;
    i = close;
  }
  return host;
}

int SlurmTasksOfNode(absl::string_view tasks_per_node, int node) {
  for (const absl::string_view word : absl::StrSplit(tasks_per_node, ',', absl::SkipEmpty())) {
    absl::string_view repeat = word.substr(std::min(word.size(), word.find('(')));
    int tasks = 0, nodes = 1;
    if (!absl::SimpleAtoi(word.substr(0, word.find('(')), &tasks) || tasks < 1) return 0;
    if (absl::ConsumePrefix(&repeat, "(x") && !absl::SimpleAtoi(absl::StripSuffix(repeat, ")"), &nodes)) return 0;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return 0;
}

namespace {

Environment WithMpiRank(const Environment& environment) {
  Environment result = environment;
  for (const MpiVariables& names : kMpi) {
    const std::string rank = environment.GetOr(names.rank, ""), size = environment.GetOr(names.size, "");
    if (rank.empty() || Number(size) < 2) continue;
    result.Set("RANK", rank);
    result.Set("WORLD_SIZE", size);
    SetUnlessGiven(result, "LOCAL_RANK", environment.GetOr(names.local_rank, ""));
    SetUnlessGiven(result, "LOCAL_WORLD_SIZE", environment.GetOr(names.local_size, ""));
    if (environment.GetOr(names.local_size, "") == size) SetUnlessGiven(result, "MASTER_ADDR", "127.0.0.1");
    return result;
  }
  return result;
}

}  // namespace

Environment WithRankVariables(const Environment& environment) {
  Environment result = environment;
  const std::string tasks = FirstOf(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  const std::string rank = environment.GetOr("SLURM_PROCID", "");
  if (environment.Get("RANK").has_value()) return result;
  if (rank.empty() || Number(tasks) < 2) return WithMpiRank(environment);
  const std::string node = environment.GetOr("SLURM_NODEID", "0");
  const int local = SlurmTasksOfNode(FirstOf(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}),
                                     static_cast<int>(Number(node)));
  result.Set("RANK", rank);
  result.Set("WORLD_SIZE", tasks);
  result.Set("LOCAL_RANK", environment.GetOr("SLURM_LOCALID", "0"));
  if (local > 0) result.Set("LOCAL_WORLD_SIZE", absl::StrCat(local));
  result.Set("NODE_RANK", node);
  const std::string nodes = FirstOf(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  SetUnlessGiven(result, "MASTER_ADDR", FirstSlurmHost(nodes));
  const int64_t step =
      Number(environment.GetOr("SLURM_JOB_ID", "")) * 16 + Number(environment.GetOr("SLURM_STEP_ID", ""));
  SetUnlessGiven(result, "MASTER_PORT", absl::StrCat(kFirstPort + step % kPorts));
  return result;
}

}  // namespace composer
