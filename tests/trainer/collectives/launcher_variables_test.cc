// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/launcher_variables.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(FirstSlurmHost, Forms) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", ""},
                                                                  {"a", "a"},
                                                                  {"a,b", "a"},
                                                                  {"node[01-03,07],x", "node01"},
                                                                  {"n[7]", "n7"},
                                                                  {"n[3,5]", "n3"},
                                                                  {"r[1-2]n[08-9]z", "r1n08z"},
                                                                  {"n[1-", "n1"},
                                                                  {"[", ""}};
  for (const auto& [list, host] : cases) EXPECT_EQ(FirstSlurmHost(list), host) << list;
}

TEST(SlurmTasksOfNode, Forms) {
  const std::vector<std::tuple<std::string, int, int>> cases = {
      {"4", 0, 4},       {"4", 1, 0}, {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1},
      {"2(x3),1", 4, 0}, {"", 0, 0},  {"x", 0, 0},       {"2(xy)", 0, 0},   {"-2", 0, 0}};
  for (const auto& [text, node, tasks] : cases) EXPECT_EQ(SlurmTasksOfNode(text, node), tasks) << text << " " << node;
}

TEST(WithRankVariables, ATaskOfAStep) {
  const Variables step = {
      {"SLURM_PROCID", "5"},    {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_NTASKS", "99"},
      {"SLURM_LOCALID", "1"},   {"SLURM_NODEID", "2"},         {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
      {"SLURM_JOB_ID", "1000"}, {"SLURM_STEP_ID", "3"},        {"SLURM_STEP_NODELIST", "n[4-6]"}};
  Environment env = WithRankVariables(Environment(step));
  const Variables expected = {
      {"RANK", "5"},      {"WORLD_SIZE", "6"},   {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
      {"NODE_RANK", "2"}, {"MASTER_ADDR", "n4"}, {"MASTER_PORT", "24003"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(env.GetOr(name, ""), value) << name;

  Variables given = step;
  given["MASTER_ADDR"] = "a";
  given["MASTER_PORT"] = "1";
  env = WithRankVariables(Environment(given));
  EXPECT_EQ(env.GetOr("MASTER_ADDR", ""), "a");
  EXPECT_EQ(env.GetOr("MASTER_PORT", ""), "1");
}

TEST(WithRankVariables, AProcessOfMpirun) {
  const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const Variables hydra = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  for (const Variables& variables : {open_mpi, hydra}) {
    const Environment env = WithRankVariables(Environment(variables));
    const Variables expected = {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
    for (const auto& [name, value] : expected) EXPECT_EQ(env.GetOr(name, ""), value) << name;
    EXPECT_FALSE(env.Get("MASTER_ADDR").has_value()) << "there are other nodes, and none is known as the first";
  }
  Variables one_node = open_mpi;
  one_node["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  EXPECT_EQ(WithRankVariables(Environment(one_node)).GetOr("MASTER_ADDR", ""), "127.0.0.1");
}

TEST(WithRankVariables, LeavesOthersAlone) {
  const Variables one_task = {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  const Variables of_torchrun = {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"RANK", "0"}};
  const Variables in_a_shell = {{"SLURM_NTASKS", "4"}};  // salloc, no srun
  const Variables one_process = {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}};
  for (const Variables& variables : {one_task, of_torchrun, in_a_shell, one_process, Variables{}}) {
    EXPECT_EQ(WithRankVariables(Environment(variables)).variables(), variables);
  }
}

}  // namespace
}  // namespace composer
