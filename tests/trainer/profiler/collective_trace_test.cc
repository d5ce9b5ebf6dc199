// A sharded run under the profiler, over a communicator with its own thread: its collectives are in the trace, in
// parallel to the backward pass.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "tests/support/shared_memory_ranks.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/profiler/profiler.h"

namespace composer {
namespace {

using Json = nlohmann::json;

TrainerOptions ProfiledFsdp(const TempDir& folder, bool overlap) {
  Case c;
  TrainerOptions options = OptionsOf(c);
  options.fsdp.emplace().overlap_communication = overlap;
  options.run_folder = folder.path();
  options.max_duration = Time::Batches(4);
  ProfilerOptions profiler;
  profiler.schedule = CyclicSchedule{.active = 2};
  profiler.ops = {.record_shapes = false, .profile_memory = false, .with_flops = false};
  options.callbacks.push_back(std::make_unique<Profiler>(profiler));
  // While block 2's backward runs, the gradients of block 3 are summed.
  AddCallback(options, {Event::kInit}, [](State& state) {
    state.model->named_parameters()["block2.up.weight"].register_hook([](const at::Tensor& grad) {
      absl::SleepFor(absl::Milliseconds(100));
      return grad;
    });
  });
  return options;
}

struct Facts {
  int gathers = 0, scatters = 0, waits = 0;
  int in_background = 0;
  std::string verdict;
};

Facts Profile(bool overlap) {
  const TempDir folder;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  SpawnRanks(2, [&](int rank) {
    const auto communicator = ConnectSharedMemory(store, rank, 2);
    TrainerOptions options = ProfiledFsdp(folder, overlap);
    options.communicator = communicator.get();
    options.store = store;
    const RunResult result = Train(std::move(options));
    ASSERT_TRUE(result.status.ok()) << result.status;
  });
  const Json trace = Json::parse(ReadFile(folder.Path("traces/ep0-ba3-rank0.json")).value());
  std::set<int64_t> background;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name" && absl::StartsWith(event["args"]["name"].get<std::string>(), "collectives"))
      background.insert(event["tid"].get<int64_t>());
  }
  Facts facts;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::string name = event["name"];
    facts.gathers += name == "all_gather" ? 1 : 0;
    facts.scatters += name == "reduce_scatter" ? 1 : 0;
    facts.waits += name == "wait_for_collective" ? 1 : 0;
    facts.in_background += background.count(event["tid"].get<int64_t>()) > 0 ? 1 : 0;
  }
  facts.verdict = ReadFile(folder.Path("traces/ep0-ba3-rank0.verdict.txt")).value();
  return facts;
}

TEST(CollectiveTrace, ShowsGathersAndSumsBesideBackward) {
  const Facts facts = Profile(/*overlap=*/true);
  EXPECT_EQ(facts.gathers, 2 * 7);  // 2 batches: the root once, 3 blocks twice
  EXPECT_EQ(facts.scatters, 2 * 4);
  EXPECT_EQ(facts.waits, facts.gathers + facts.scatters);
  EXPECT_GT(facts.in_background, 0);
  EXPECT_THAT(facts.verdict, testing::HasSubstr("collectives in the background: "));
  EXPECT_THAT(facts.verdict, testing::Not(testing::HasSubstr(" 0.0 % beside computation")));
}

TEST(CollectiveTrace, WithoutOverlapEachIsWaitedForWhereItStarts) {
  const Facts facts = Profile(/*overlap=*/false);
  EXPECT_EQ(facts.gathers, 2 * 7);
  EXPECT_EQ(facts.scatters, 2 * 4);
  EXPECT_EQ(facts.waits, facts.gathers + facts.scatters);
}

}  // namespace
}  // namespace composer
