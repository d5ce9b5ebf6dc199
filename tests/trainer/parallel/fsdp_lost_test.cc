// A rank fails in each collective of a training step in turn: no other rank waits for it, and each ends with an error
// that names the collective it was in. Ranks are threads over shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/fail_at.h"
#include "tests/support/shared_memory_ranks.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct Plan {
  const char* name;
  ShardingStrategy strategy;
  int ranks, replicate;
  // The number of collectives of each kind in a step of two microbatches and clipping by norm.
  int all_gathers, reduce_scatters, all_reduces;
};

// Runs with a failure of the last rank in the nth collective of a kind. Returns results by rank.
std::vector<RunResult> RunWithFailure(const Plan& plan, const std::string& collective, int nth) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<RunResult> results(static_cast<size_t>(plan.ranks));
  SpawnRanks(plan.ranks, [&](int rank) {
    const auto communicator =
        ConnectSharedMemory(store, rank, plan.ranks, /*inline_bytes=*/nth % 2 == 0 ? -1 : 1 << 16);
    Case c;
    c.microbatch = 8 / plan.ranks / 2;
    TrainerOptions options = OptionsOf(c);
    options.fsdp.emplace().strategy = plan.strategy;
    options.fsdp->data_parallel_replicate_degree = plan.replicate;
    options.max_duration = Time::Batches(5);
    AddCallback(options, {Event::kAfterTrainBatch},
                [](State& state) { ClipGradientsByNorm(state.model->parameters(), 0.05, state.sharding, 2); });
    if (rank + 1 == plan.ranks) {
      options.callbacks.push_back(std::make_unique<FailAt>(FailAt::Options{.rank = rank,
                                                                           .batch = 3,
                                                                           .how = FailAt::How::kThrow,
                                                                           .event = Event::kBeforeTrainBatch,
                                                                           .collective = collective,
                                                                           .nth = nth}));
    }
    options.communicator = communicator.get();
    options.store = store;
    results[static_cast<size_t>(rank)] = Train(std::move(options));
  });
  return results;
}

TEST(FsdpLost, NoRankWaitsForOneThatFailedInAnyCollective) {
  const Plan plans[] = {
      // There are 2 passes of 1 + 3 + 3 gathers (the root's once per step) and 4 sums.
      {"FULL_SHARD", ShardingStrategy::kFullShard, 2, 1, 13, 8, 1},
      {"SHARD_GRAD_OP", ShardingStrategy::kShardGradOp, 3, 1, 4, 8, 1},
      {"HYBRID_SHARD", ShardingStrategy::kFullShard, 4, 2, 13, 8, 5},
      {"NO_SHARD", ShardingStrategy::kNoShard, 2, 1, 0, 0, 1},
  };
  for (const Plan& plan : plans) {
    const std::pair<const char*, int> kinds[] = {
        {"all_gather", plan.all_gathers}, {"reduce_scatter", plan.reduce_scatters}, {"all_reduce", plan.all_reduces}};
    for (const auto& [kind, count] : kinds) {
      for (int nth = 1; nth <= count; ++nth) {
        SCOPED_TRACE(testing::Message() << plan.name << ", " << kind << " " << nth);
        const std::vector<RunResult> results = RunWithFailure(plan, kind, nth);
        EXPECT_THAT(std::string(results.back().status.message()), HasSubstr("asked to fail"));
        for (size_t rank = 0; rank + 1 < results.size(); ++rank) {
          EXPECT_EQ(results[rank].status.code(), absl::StatusCode::kUnavailable) << results[rank].status;
          EXPECT_THAT(std::string(results[rank].status.message()), HasSubstr(" failed on rank ")) << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace composer
