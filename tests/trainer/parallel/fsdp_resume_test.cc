// A sharded run's checkpoint has whole tensors, whichever rank wrote them, for any strategy on any number of ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/callbacks/output/export_for_inference.h"

namespace composer {
namespace {

constexpr ShardingStrategy kNoShard = ShardingStrategy::kNoShard, kGradOp = ShardingStrategy::kShardGradOp,
                           kFull = ShardingStrategy::kFullShard;

std::vector<RunResult> RunOn(int ranks, ShardingStrategy strategy, int64_t batches, const std::string& folder,
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

TEST(FsdpCheckpoint, HasTheTensorsOfTheUnshardedRun) {
  const TempDir whole, sharded;
  ASSERT_TRUE(RunOn(2, kNoShard, 5, whole.path())[0].status.ok());
  for (const int replicate : {1, 2}) {
    const TempDir folder;
    const auto results = RunOn(4, kFull, 5, folder.path(), replicate);
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ExpectSavedAlike(folder.path(), whole.path());
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
  const RunResult undisturbed = RunOn(1, kNoShard, 10, alone.path())[0];
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.from_ranks << " ranks, strategy " << static_cast<int>(row.from) << " -> "
                                    << row.to_ranks << ", " << static_cast<int>(row.to));
    const TempDir folder;
    ASSERT_TRUE(RunOn(row.from_ranks, row.from, 5, folder.path())[0].status.ok());
    for (const RunResult& result : RunOn(row.to_ranks, row.to, 10, folder.path())) {
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
    const auto undisturbed = RunOn(3, strategy, 10, one.path());
    ASSERT_TRUE(RunOn(3, strategy, 5, two.path())[0].status.ok());
    const auto resumed = RunOn(3, strategy, 10, two.path());
    ASSERT_TRUE(resumed[0].status.ok()) << resumed[0].status;
    EXPECT_EQ(LargestDifference(resumed[0], undisturbed[0]), 0);
  }
}

// Rank 0 writes whole parameters, as gathered from all shards.
TEST(FsdpCheckpoint, ExportIsOfWholeParameters) {
  const TempDir folder;
  const auto results = TrainOnRanks(2, [&](int rank) {
    TrainerOptions options = OptionsOf({});
    options.fsdp.emplace();
    options.max_duration = Time::Batches(2);
    options.callbacks.push_back(
        std::make_unique<ExportForInference>(ExportForInference::Options{.folder = folder.Path("export")}));
    return options;
  });
  ASSERT_TRUE(results[0].status.ok()) << results[0].status;
  const std::string file = ReadFile(folder.Path("export/model.safetensors")).value();
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const auto header = nlohmann::json::parse(file.substr(8, length));
  for (const auto& [name, tensor] : results[0].tensors) {
    ASSERT_TRUE(header.contains(name)) << name;
    EXPECT_EQ(header[name]["shape"].get<std::vector<int64_t>>(), tensor.sizes().vec());
    const std::string bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    const size_t begin = 8 + length + header[name]["data_offsets"][0].get<size_t>();
    EXPECT_EQ(file.substr(begin, bytes.size()), bytes) << name;
  }
}

}  // namespace
}  // namespace composer
