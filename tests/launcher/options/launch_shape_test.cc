// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

struct Facts {
  int job_nproc = 0;
  int gpus = 0;
  int cpus = 4;
  PlatformShape platform;
};

absl::StatusOr<LaunchShape> Decide(const std::string& flags, const Variables& variables = {}, const Facts& facts = {}) {
  const Environment environment(variables);
  const auto options = ParseLaunchOptions(absl::StrSplit(flags, ' ', absl::SkipEmpty()), environment);
  if (!options.ok()) return options.status();
  return DecideShape(
      {*options, environment.GetOr("LOCAL_WORLD_SIZE", ""), facts.job_nproc, facts.gpus, facts.cpus, facts.platform});
}

// Formats slots, min:max, world size, node rank, base rank, endpoint, hosting.
std::string Text(const LaunchShape& s) {
  const char* hosting = s.hosting == Hosting::kYes ? "yes" : s.hosting == Hosting::kNo ? "no" : "if local";
  return absl::StrCat(s.slots, " x ", s.min_nodes, ":", s.max_nodes, " of ", s.world_size, ", node ", s.node_rank,
                      ", base ", s.base_rank, ", ", s.endpoints.at(0).ToString(), " ", hosting);
}

TEST(LaunchShapeTest, PossibleShapes) {
  struct Case {
    std::string flags;
    Variables variables;
    std::string shape;
    Facts facts = {};
  };
  const std::string one = " x 1:1 of 0, node 0, base 0, 127.0.0.1:0 yes";
  const std::vector<Case> cases = {
      // These run on one node.
      {"", {}, "1" + one},
      {"-n 8", {}, "8" + one},
      {"", {}, "2" + one, {.gpus = 2}},
      {"", {}, "3" + one, {.job_nproc = 3, .gpus = 2}},
      {"-n auto", {}, "2" + one, {.gpus = 2}},
      {"-n auto", {}, "4" + one},
      {"-n gpu", {}, "2" + one, {.gpus = 2}},
      {"-n cpu", {}, "4" + one, {.gpus = 2}},
      {"", {{"LOCAL_WORLD_SIZE", "0"}}, "1" + one},
      {"-n 8 --master_port 7501", {}, "8 x 1:1 of 0, node 0, base 0, 127.0.0.1:7501 yes"},
      {"-n 8 --world_size 8 --node_rank 0 --base_rank 0", {}, "8 x 1:1 of 8, node 0, base 0, 127.0.0.1:0 yes"},
      {"-n 2 --standalone --rdzv-endpoint a:1", {}, "2" + one},
      {"-n 2 --nnodes 1", {}, "2" + one},
      // These are variables of the worker in which this launcher runs, or of a platform with one node.
      {"-n 2", {{"MASTER_PORT", "99"}, {"MASTER_ADDR", "b"}}, "2" + one},
      {"-n 2", {{"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "4"}}, "2" + one},
      // These are the Python launcher's flags for several nodes.
      {"-n 8 --world_size 16 --node_rank 0 --master_addr 10.0.0.1 --master_port 7501",
       {},
       "8 x 2:2 of 16, node 0, base 0, 10.0.0.1:7501 yes"},
      {"-n 8 --world_size 16 --node_rank 1 --master_addr 10.0.0.1 --master_port 7501",
       {},
       "8 x 2:2 of 16, node 1, base 8, 10.0.0.1:7501 no"},
      {"-n 8 --world_size 16 --base_rank 8 --master_addr 10.0.0.1 --master_port 7501",
       {},
       "8 x 2:2 of 16, node 1, base 8, 10.0.0.1:7501 no"},
      {"-n 1 --world_size 2 --node_rank 0 --master_addr ::1", {}, "1 x 2:2 of 2, node 0, base 0, [::1]:29500 yes"},
      {"",
       {{"WORLD_SIZE", "16"},
        {"LOCAL_WORLD_SIZE", "8"},
        {"NODE_RANK", "1"},
        {"MASTER_ADDR", "a"},
        {"MASTER_PORT", "5"}},
       "8 x 2:2 of 16, node 1, base 8, a:5 no"},
      {"-n 2 --nnodes 2 --world_size 3 --node_rank 0 --base_rank 0 --master_addr a",
       {},
       "2 x 2:2 of 3, node 0, base 0, a:29500 yes"},
      // These are torchrun's flags.
      {"--nnodes 1:4 -n 2 --rdzv-endpoint a:7501", {}, "2 x 1:4 of 0, node -1, base -1, a:7501 if local"},
      {"--nnodes 1:4 -n 2 --rdzv-endpoint a", {}, "2 x 1:4 of 0, node -1, base -1, a:29400 if local"},
      {"--nnodes 2 -n 2 --rdzv-endpoint a,b:1", {}, "2 x 2:2 of 0, node -1, base -1, a:29400 if local"},
      {"--nnodes 2 --node-rank 1 -n 2 --rdzv-endpoint a,b:1", {}, "2 x 2:2 of 0, node 1, base -1, a:29400 no"},
      {"--nnodes 2 --node-rank 1 --master-addr a --master-port 1", {}, "1 x 2:2 of 0, node 1, base -1, a:1 no"},
      {"--nnodes 2 --rdzv-endpoint a:1 --rdzv-conf is_host=1", {}, "1 x 2:2 of 0, node -1, base -1, a:1 yes"},
      {"--nnodes 2 --rdzv-endpoint a:1 --rdzv-conf is_host=0", {}, "1 x 2:2 of 0, node -1, base -1, a:1 no"},
      {"--rdzv-endpoint localhost:0", {}, "1 x 1:1 of 0, node 0, base 0, localhost:0 if local"},
      {"-n 2",
       {{"PET_NNODES", "2"}, {"WORLD_SIZE", "9"}, {"PET_RDZV_ENDPOINT", "a:1"}},
       "2 x 2:2 of 0, node -1, base -1, a:1 if local"},
      // These come from a batch system.
      {"", {}, "4 x 3:3 of 0, node 1, base -1, h0:777 no", {.platform = {"Slurm", 3, 1, 4, {"h0", "h1", "h2"}, 777}}},
      {"-n 2 --nnodes 1:3",
       {},
       "2 x 1:3 of 0, node 0, base -1, h0:777 yes",
       {.platform = {"Slurm", 3, 0, 4, {"h0", "h1", "h2"}, 777}}},
      {"--standalone", {}, "4" + one, {.platform = {"Slurm", 3, 1, 4, {"h0", "h1", "h2"}, 777}}},
  };
  for (const Case& c : cases) {
    const auto shape = Decide(c.flags, c.variables, c.facts);
    ASSERT_TRUE(shape.ok()) << c.flags << ": " << shape.status();
    EXPECT_EQ(Text(*shape), c.shape) << c.flags;
  }
  EXPECT_EQ(Decide("--nnodes 2 --rdzv-endpoint a,b:1,[::1]:2")->endpoints.size(), 3u);
}

TEST(LaunchShapeTest, ImpossibleShapesAreExplained) {
  struct Case {
    std::string flags;
    std::string message;
    Variables variables = {};
  };
  const std::vector<Case> cases = {
      {"-n 8 --world_size 8 --node_rank 1",
       "node-rank 1 (--node_rank) cannot be: world-size 8 (--world_size) and nproc 8 (-n) make one node, whose "
       "node-rank "
       "is 0; for two nodes of 8 workers give --world_size 16"},
      {"-n 8 --base_rank 8", "base-rank 8 (--base_rank) cannot be: there is one node"},
      {"-n 8", "node-rank 1 (NODE_RANK) cannot be", {{"NODE_RANK", "1"}}},
      {"-n 0", "nproc 0 (-n): a node has at least 1 worker"},
      {"-n gpu", "nproc is `gpu`, but this node shows no GPU"},
      {"-n 8 --world_size 4", "world-size 4 (--world_size) is less than nproc 8 (-n)"},
      {"-n 8", "world-size 4 (WORLD_SIZE) is less than nproc 8 (-n)", {{"WORLD_SIZE", "4"}}},
      {"-n 8 --world_size 16", "make 2 nodes: --node_rank must say which of them this is, 0 to 1 (or --base_rank)"},
      {"-n 8 --world_size 16 --node_rank 2", "there are at most 2 nodes, so it must be from 0 to 1"},
      {"-n 8 --world_size 16 --node_rank 0", "give --master_addr, the address of node 0"},
      {"-n 3 --world_size 16 --node_rank 0", "world-size 16 (--world_size) is not a multiple of nproc 3 (-n)"},
      {"-n 2 --world_size 3 --node_rank 0 --base_rank 0", "give --nnodes N too, the number of nodes"},
      {"-n 2 --world_size 4 --base_rank 1 --master_addr a",
       "node-rank is missing and cannot be found out: base-rank 1 (--base_rank)"},
      {"-n 2 --nnodes 2 --world_size 3 --node_rank 1 --master_addr a", "base-rank is missing and cannot be found out"},
      {"-n 2 --nnodes 2 --world_size 3 --node_rank 1 --base_rank 2 --master_addr a",
       "base-rank 2 (--base_rank) with nproc 2 (-n) makes rank 3, but world-size 3 (--world_size) allows ranks up to "
       "2"},
      {"-n 2 --nnodes 2 --world_size 2 --master_addr a", "does not fit nnodes 2 with nproc 2 (-n) on this one"},
      {"-n 2 --nnodes 1 --world_size 4", "does not fit nnodes 1 with nproc 2 (-n)"},
      {"--nnodes 1:4 --world_size 8", "but nnodes 1:4 leaves it open: leave one of them out"},
      {"--nnodes 2 --standalone", "standalone means one node, but nnodes is 2"},
      {"-n 1 --world_size 2 --standalone", "standalone means one node, but world-size 2 (--world_size)"},
      {"--nnodes 2 --master_addr a --master_port 0", "port 0 is any free one, which the other nodes would not know"},
      {"--nnodes 2 --master_addr a,b", "must be one host; --rdzv-endpoint takes several"},
      {"--nnodes 2 --master_addr a/b", "master-addr: `a/b` must be HOST or HOST:PORT"},
      {"--nnodes 2 --rdzv-endpoint a:x", "rdzv-endpoint: `a:x` must end in a port from 0 to 65535"},
      {"--nnodes 2 --rdzv-endpoint a:1 --master_addr b", "both say where the nodes meet"},
  };
  for (const Case& c : cases) {
    const auto shape = Decide(c.flags, c.variables);
    ASSERT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument) << c.flags;
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr(c.message)) << c.flags;
  }
}

TEST(LaunchShapeTest, SaysWhereItHasThingsFrom) {
  const auto origin = [](const LaunchShape& shape, const std::string& name) {
    for (const OptionValue& v : shape.values) {
      if (v.name == name) return absl::StrCat(v.value, " <- ", v.origin);
    }
    return std::string("-");
  };
  auto shape = Decide("-n 2 --world_size 4 --base_rank 2 --master_addr a");
  EXPECT_EQ(origin(*shape, "node-rank"), "1 <- base-rank / nproc");
  EXPECT_EQ(origin(*shape, "nnodes"), "2 <- world-size / nproc");
  EXPECT_EQ(origin(*shape, "rendezvous"), "a:29500 <- master-addr");
  shape = Decide("", {}, {.gpus = 2});
  EXPECT_EQ(origin(*shape, "nproc"), "2 <- one per GPU");
  shape = Decide("-n 2", {{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "9"}});
  EXPECT_EQ(origin(*shape, "world-size"), "- <- environment WORLD_SIZE does not count: it equals LOCAL_WORLD_SIZE");
  EXPECT_EQ(origin(*shape, "master-port"), "any free one <- one node: MASTER_PORT of the environment does not count");
}

}  // namespace
}  // namespace composer
