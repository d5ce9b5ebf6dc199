// The variables are those that srun of Slurm 22.05 set for its tasks.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/launch_context.h"
#include "launcher/platform/platform.h"
#include "launcher/workers/worker_environment.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The task on the second node of srun -N2 --ntasks-per-node=1.
Environment OnePerNode() {
  return Environment({{"SLURM_JOB_ID", "5001"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NODELIST", "n[0-1]"},
                      {"SLURM_JOB_NODELIST", "n[0-3]"},
                      {"SLURM_STEP_NUM_TASKS", "2"},
                      {"SLURM_NTASKS", "2"},
                      {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                      {"SLURM_PROCID", "1"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_LOCALID", "0"}});
}

Environment With(Environment environment, std::initializer_list<std::pair<const char*, const char*>> changes) {
  for (const auto& [name, value] : changes) environment.Set(name, value);
  return environment;
}

SlurmPlace Place(const Environment& environment, int visible_gpus = 0) {
  const auto place = ReadSlurmPlace(environment, visible_gpus);
  EXPECT_TRUE(place.ok()) << place.status();
  EXPECT_TRUE(place.ok() && place->has_value());
  return place.ok() && place->has_value() ? **place : SlurmPlace();
}

std::string Error(const Environment& environment) {
  const auto place = ReadSlurmPlace(environment, 0);
  EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(place.status().message());
}

TEST(SlurmPlaceTest, OneLauncherANode) {
  const SlurmPlace place = Place(OnePerNode());
  EXPECT_EQ(place.job_id, 5001u);
  EXPECT_EQ(place.node_rank.value, 1);
  EXPECT_EQ(place.node_rank.origin, "SLURM_PROCID");
  EXPECT_EQ(place.nodes.value, 2);
  EXPECT_EQ(place.nodes.origin, "SLURM_STEP_NUM_TASKS");
  EXPECT_EQ(place.port.value, 61440 + 905);
  EXPECT_FALSE(place.slots.has_value()) << "no GPUs: the job or the flags say how many workers";
  EXPECT_THAT(place.hosts, ElementsAre("n0", "n1")) << "the step's nodes, not the job's";
  EXPECT_EQ(place.host, 1);
  EXPECT_EQ(place.restarts, 0);
  EXPECT_EQ(place.local_world_size, 0);
}

TEST(SlurmPlaceTest, TheTopologyIsTheNodesGroup) {
  const auto group = [](const char* address, const char* pattern) {
    const SlurmPlace place =
        Place(With(OnePerNode(), {{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}));
    Platform platform;
    platform.slurm = place;
    EXPECT_EQ(ToPlatform(platform).node_group, place.node_group);
    return place.node_group;
  };
  EXPECT_EQ(group("s0.s4.n7", "switch.switch.node"), "s0.s4");
  EXPECT_EQ(group("block2.n7", "block.node"), "block2");
  EXPECT_EQ(group("s0.host.with.dots", "switch.node"), "s0");
  EXPECT_EQ(group("n7", "node"), "") << "no topology";
  EXPECT_EQ(group("n7", "switch.node"), "") << "contradictory";
  EXPECT_EQ(group("s0.n7", ""), "");
  EXPECT_EQ(group("s\t0.n7", "switch.node"), "");
  EXPECT_EQ(group((std::string(300, 's') + ".n7").c_str(), "switch.node"), "");
}

TEST(SlurmPlaceTest, GpusOfTheNodeAreItsWorkers) {
  const SlurmPlace place = Place(With(OnePerNode(), {{"SLURM_GPUS_ON_NODE", "8"}}), 8);
  EXPECT_EQ(place.slots->value, 8);
  EXPECT_EQ(place.slots->origin, "SLURM_GPUS_ON_NODE");
  EXPECT_EQ(place.first_local_rank, 0);
}

// The second task of the second node of srun -N2 -n6 --gres=gpu:8.
Environment TaskPerGpu() {
  return With(OnePerNode(), {{"SLURM_STEP_NUM_TASKS", "6"},
                             {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
                             {"SLURM_PROCID", "5"},
                             {"SLURM_LOCALID", "1"},
                             {"SLURM_GPUS_ON_NODE", "2"}});
}

TEST(SlurmPlaceTest, TasksOfANodeShareItsCoresUnlessBound) {
  const Environment environment = With(TaskPerGpu(), {{"SLURM_CPUS_ON_NODE", "16"}});
  for (const int visible_gpus : {1, 2}) {  // shares do not depend on whether Slurm hides other GPUs
    const SlurmPlace place = Place(environment, visible_gpus);
    const CpuSharing shared = ShareCpus(place, /*allowed_cpus=*/16, /*workers_of_launcher=*/1);
    EXPECT_EQ(shared.workers, 2);
    EXPECT_EQ(shared.first, 1);
    const CpuSharing bound = ShareCpus(place, /*allowed_cpus=*/8, 1);
    EXPECT_EQ(bound.workers, 1) << "srun --cpus-per-task=8 with task affinity";
    EXPECT_EQ(bound.first, 0);
  }
  const CpuSharing one_a_node = ShareCpus(Place(OnePerNode()), 16, 8);
  EXPECT_EQ(one_a_node.workers, 8);
  EXPECT_EQ(one_a_node.first, 0);

  // Same as with one launcher per node.
  const auto threads = [](int workers_here, int sharers) {
    WorkerPlace place;
    place.cpus = 16;
    place.local_world_size = workers_here;
    place.cpu_sharers = sharers;
    return WorkerEnvironment({}, place).GetOr("OMP_NUM_THREADS", "");
  };
  EXPECT_EQ(threads(8, 0), "2");
  EXPECT_EQ(threads(8, 8), "2");
  EXPECT_EQ(threads(1, 8), "2");
  EXPECT_EQ(threads(1, 64), "1");
}

TEST(SlurmPlaceTest, TheFirstLauncherOfAHostServesInItsTurn) {
  const auto place = [](const Environment& environment, int node_rank) {
    LaunchOptions options;
    LaunchPlan plan;
    plan.shape.max_nodes = 6;
    plan.shape.node_rank = node_rank;
    plan.shape.endpoints = {{"n0", 61000}, {"n1", 61000}};
    Platform platform;
    platform.slurm = Place(environment, 2);
    const Environment none;
    LaunchContext context = {.options = options, .plan = plan, .environment = none, .platform = platform};
    FindPlace(context);
    return context.place;
  };
  const auto task = [](const char* rank, const char* node, const char* local) {
    return With(TaskPerGpu(), {{"SLURM_PROCID", rank}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", local}});
  };
  EXPECT_EQ(place(task("1", "0", "1"), 1), -1) << "rank 1 is on the first host";
  EXPECT_EQ(place(task("4", "1", "0"), 4), 1);
  EXPECT_EQ(place(task("5", "1", "1"), 5), -1);
  EXPECT_EQ(place(OnePerNode(), 1), 1) << "one launcher a host: its rank";
}

// Node names do not resolve, so node 0 could not reach the rendezvous that it serves itself.
TEST(SlurmPlaceTest, WhatALauncherServesItReachesByLoopback) {
  const auto servers = [](int place, bool serves) {
    LaunchOptions options;
    LaunchPlan plan;
    plan.shape.max_nodes = 3;
    plan.shape.endpoints = {{"n0", 61000}, {"n1", 61001}, {"n2", 61002}};
    const Environment none;
    Platform platform;
    LaunchContext context = {.options = options, .plan = plan, .environment = none, .platform = platform};
    context.place = place;
    context.serves = serves;
    return PlacesOf(context).servers;
  };
  EXPECT_THAT(servers(0, true), ElementsAre("127.0.0.1:61000", "n1:61001", "n2:61002"));
  EXPECT_THAT(servers(1, false), ElementsAre("n0:61000", "127.0.0.1:61001", "n2:61002"));
  EXPECT_THAT(servers(0, false), ElementsAre("n0:61000", "n1:61001", "n2:61002")) << "another process serves there";
  EXPECT_THAT(servers(-1, false), ElementsAre("n0:61000", "n1:61001", "n2:61002"));
}

TEST(SlurmPlaceTest, OneTaskAGpu) {
  const SlurmPlace sees_all = Place(TaskPerGpu(), 2);
  EXPECT_EQ(sees_all.nodes.value, 6);
  EXPECT_EQ(sees_all.node_rank.value, 5);
  EXPECT_EQ(sees_all.slots->value, 1);
  EXPECT_EQ(sees_all.first_local_rank, 1);
  EXPECT_EQ(sees_all.local_world_size, 2);

  const SlurmPlace sees_own = Place(TaskPerGpu(), 1);  // --gpus-per-task=1
  EXPECT_EQ(sees_own.slots->value, 1);
  EXPECT_EQ(sees_own.first_local_rank, 0);
  EXPECT_EQ(sees_own.local_world_size, 0);
}

TEST(SlurmPlaceTest, TwoTasksOfFourGpusEach) {
  const SlurmPlace place = Place(With(TaskPerGpu(), {{"SLURM_GPUS_ON_NODE", "8"}}), 8);
  EXPECT_EQ(place.slots->value, 4);
  EXPECT_EQ(place.slots->origin, "SLURM_GPUS_ON_NODE / tasks");
  EXPECT_EQ(place.first_local_rank, 4);
  EXPECT_EQ(place.local_world_size, 8);
}

TEST(SlurmPlaceTest, TasksWithoutGpusHaveOneWorker) {
  const SlurmPlace place = Place(With(TaskPerGpu(), {{"SLURM_GPUS_ON_NODE", ""}}));
  EXPECT_EQ(place.slots->value, 1);
  EXPECT_EQ(place.slots->origin, "SLURM_STEP_TASKS_PER_NODE");
  EXPECT_EQ(place.first_local_rank, 1);
}

// Taken from a step of srun --het-group=0,1 of a job with 1 and 2 tasks.
TEST(SlurmPlaceTest, AStepOverAHeterogeneousJob) {
  const SlurmPlace place = Place(With(OnePerNode(), {{"SLURM_HET_SIZE", "2"},
                                                     {"SLURM_STEP_NUM_TASKS", "3"},
                                                     {"SLURM_STEP_TASKS_PER_NODE", "1,2"},
                                                     {"SLURM_PROCID", "2"},
                                                     {"SLURM_LOCALID", "1"}}));
  EXPECT_EQ(place.nodes.value, 3);
  EXPECT_EQ(place.node_rank.value, 2);
  EXPECT_EQ(place.first_local_rank, 1);
}

TEST(SlurmPlaceTest, PortsDifferBetweenStepsAndStayInTheirRange) {
  EXPECT_EQ(Place(With(OnePerNode(), {{"SLURM_STEP_ID", "1"}})).port.value, 61440 + 905 + 257);
  EXPECT_EQ(Place(With(OnePerNode(), {{"SLURM_JOB_ID", "8191"}})).port.value, 65535);
  EXPECT_EQ(Place(With(OnePerNode(), {{"SLURM_JOB_ID", "8192"}})).port.value, 61440);
}

TEST(SlurmPlaceTest, ARequeuedJob) { EXPECT_EQ(Place(With(OnePerNode(), {{"SLURM_RESTART_COUNT", "3"}})).restarts, 3); }

TEST(SlurmPlaceTest, OlderNames) {
  Environment old = OnePerNode();
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS"}) old.Remove(name);
  old.Set("SLURM_JOB_NODELIST", "n[0-1]");
  EXPECT_EQ(Place(old).nodes.origin, "SLURM_NTASKS");
  EXPECT_EQ(Place(old).hosts_origin, "SLURM_JOB_NODELIST");
}

TEST(SlurmPlaceTest, NotAStep) {
  EXPECT_FALSE(ReadSlurmPlace(Environment(), 0)->has_value());
  // In a batch script, sbatch sets PROCID but no step.
  EXPECT_FALSE(ReadSlurmPlace(Environment({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}}), 0)->has_value());
}

TEST(SlurmPlaceTest, Contradictions) {
  const Environment good = OnePerNode();
  EXPECT_THAT(Error(With(good, {{"SLURM_PROCID", "2"}})),
              HasSubstr("SLURM_PROCID: `2` must be a whole number from 0 to 1"));
  EXPECT_THAT(Error(With(good, {{"SLURM_NODEID", "2"}})), HasSubstr("SLURM_NODEID: `2`"));
  EXPECT_THAT(Error(With(good, {{"SLURM_LOCALID", "1"}})), HasSubstr("SLURM_LOCALID: `1`"));
  EXPECT_THAT(Error(With(good, {{"SLURM_STEP_TASKS_PER_NODE", "1(x3)"}})),
              HasSubstr("speaks of 3 nodes, SLURM_STEP_NODELIST of 2"));
  EXPECT_THAT(Error(With(good, {{"SLURM_STEP_TASKS_PER_NODE", "2,1"}})),
              HasSubstr("makes 3 tasks, SLURM_STEP_NUM_TASKS is 2"));
  EXPECT_THAT(Error(With(good, {{"SLURM_STEP_TASKS_PER_NODE", "x"}})), HasSubstr("SLURM_STEP_TASKS_PER_NODE: `x`"));
  EXPECT_THAT(Error(With(good, {{"SLURM_STEP_NODELIST", "n["}})), HasSubstr("SLURM_STEP_NODELIST: `n[`"));
  EXPECT_THAT(Error(With(good, {{"SLURM_JOB_ID", "x"}})), HasSubstr("SLURM_JOB_ID: `x`"));
  EXPECT_THAT(Error(With(good, {{"SLURM_NODEID", ""}})), HasSubstr("SLURM_NODEID is not set"));
  EXPECT_THAT(Error(With(good, {{"SLURM_RESTART_COUNT", "-1"}})), HasSubstr("SLURM_RESTART_COUNT: `-1`"));
}

TEST(PlatformTest, TheShapeThatSlurmGives) {
  const PlatformShape shape = ToPlatform({.slurm = Place(TaskPerGpu(), 2)});
  EXPECT_EQ(shape.name, "Slurm");
  EXPECT_EQ(shape.nodes, 6);
  EXPECT_EQ(shape.node_rank, 5);
  EXPECT_EQ(shape.slots, 1);
  EXPECT_THAT(shape.hosts, ElementsAre("n0", "n1"));
  EXPECT_EQ(shape.port, 61440 + 905);
  EXPECT_EQ(ToPlatform({}).nodes, 0);
  EXPECT_EQ(ToPlatform({.slurm = Place(OnePerNode())}).slots, 0) << "the YAML file or the flags say it";

  SlurmPlace large = Place(OnePerNode());
  large.hosts.assign(1000, "n");
  EXPECT_EQ(ToPlatform({.slurm = large}).hosts.size(), 16u) << "more successors than anybody needs";
}

TEST(SlurmAdviceTest, OnlyForSeveralNodesWithoutSrun) {
  EXPECT_EQ(SlurmAdvice(Environment()), "");
  EXPECT_EQ(SlurmAdvice(Environment({{"SLURM_JOB_NUM_NODES", std::string("1")}})), "");
  EXPECT_EQ(SlurmAdvice(Environment({{"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_STEP_ID", "0"}})), "");
  EXPECT_THAT(SlurmAdvice(Environment({{"SLURM_JOB_NUM_NODES", std::string("2")}})), HasSubstr("has 2 nodes"));
}

}  // namespace
}  // namespace composer
