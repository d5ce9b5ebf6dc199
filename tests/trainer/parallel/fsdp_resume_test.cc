// A sharded run's checkpoint: whole tensors, whoever wrote them, for any strategy on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"

namespace composer {
namespace {

constexpr ShardingStrategy kNoShard = ShardingStrategy::kNoShard, kGradOp = ShardingStrategy::kShardGradOp,
                           kFull = ShardingStrategy::kFullShard;

std::vector<RunResult> Run(int ranks, ShardingStrategy strategy, int64_t batches, const std::string& folder,
                           int replicate = 1) {
  return TrainOnRanks(ranks, [&](int rank) {
    Case c;
    c.shape.tied = true;
    TrainerOptions options = OptionsOf(c);
    options.fsdp.emplace().strategy = strategy;
    options.fsdp->data_parallel_replicate_degree = replicate;
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    return options;
  });
}

std::map<std::string, at::Tensor> Saved(const std::string& folder) {
  std::map<std::string, at::Tensor> result;
  for (auto& [name, tensor] : NewestCheckpoint(folder).tensors) result[name] = tensor;
  return result;
}

TEST(FsdpCheckpoint, HasTheTensorsOfTheUnshardedRun) {
  const TempDir whole, sharded;
  ASSERT_TRUE(Run(2, kNoShard, 5, whole.path())[0].status.ok());
  const auto expected = Saved(whole.path());
  for (const int replicate : {1, 2}) {
    const TempDir folder;
    const auto results = Run(4, kFull, 5, folder.path(), replicate);
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    const auto saved = Saved(folder.path());
    ASSERT_EQ(saved.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(saved.count(name)) << name;
      ASSERT_EQ(saved.at(name).sizes(), tensor.sizes()) << name;
      EXPECT_TRUE(saved.at(name).allclose(tensor, 1e-4, 1e-6)) << name;
    }
  }
}

TEST(FsdpCheckpoint, AnyStrategyOnAnyNumberOfRanksGoesOn) {
  struct Row {
    int from_ranks;
    ShardingStrategy from;
    int to_ranks;
    ShardingStrategy to;
  };
  const Row rows[] = {{2, kFull, 3, kFull},    {3, kFull, 2, kGradOp},  {4, kGradOp, 1, kFull},
                      {1, kNoShard, 4, kFull}, {2, kFull, 2, kNoShard}, {2, kNoShard, 3, kGradOp}};
  const TempDir alone;
  const RunResult undisturbed = Run(1, kNoShard, 10, alone.path())[0];
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.from_ranks << " ranks, strategy " << static_cast<int>(row.from) << " -> "
                                    << row.to_ranks << ", " << static_cast<int>(row.to));
    const TempDir folder;
    ASSERT_TRUE(Run(row.from_ranks, row.from, 5, folder.path())[0].status.ok());
    for (const RunResult& result : Run(row.to_ranks, row.to, 10, folder.path())) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_FALSE(result.resumed_from.empty());
      EXPECT_EQ(result.losses.size(), 5);
      EXPECT_LE(RelativeError(result, undisturbed), 1e-6);
    }
  }
}

TEST(FsdpCheckpoint, TheSameRanksGoOnBitForBit) {
  for (const ShardingStrategy strategy : {kGradOp, kFull}) {
    const TempDir one, two;
    const auto undisturbed = Run(3, strategy, 10, one.path());
    ASSERT_TRUE(Run(3, strategy, 5, two.path())[0].status.ok());
    const auto resumed = Run(3, strategy, 10, two.path());
    ASSERT_TRUE(resumed[0].status.ok()) << resumed[0].status;
    EXPECT_EQ(LargestDifference(resumed[0], undisturbed[0]), 0);
  }
}

}  // namespace
}  // namespace composer
