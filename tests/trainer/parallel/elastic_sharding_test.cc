// Tests determinism: elastic with every sharding strategy, which gives the same bits on any mesh. Ranks are threads, so
// there is no dropout; tests/integration/elastic_sharding_test.py has dropout, and a hundred steps.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct Mesh4 {
  const char* name;
  int ranks;
  ShardingStrategy strategy;
  int replicate = 1;
};
constexpr Mesh4 kMeshes[] = {{"NO_SHARD 1", 1, ShardingStrategy::kNoShard},
                             {"NO_SHARD 4", 4, ShardingStrategy::kNoShard},
                             {"SHARD_GRAD_OP 1", 1, ShardingStrategy::kShardGradOp},
                             {"SHARD_GRAD_OP 2", 2, ShardingStrategy::kShardGradOp},
                             {"SHARD_GRAD_OP 4", 4, ShardingStrategy::kShardGradOp},
                             {"SHARD_GRAD_OP 8", 8, ShardingStrategy::kShardGradOp},
                             {"FULL_SHARD 1", 1, ShardingStrategy::kFullShard},
                             {"FULL_SHARD 2", 2, ShardingStrategy::kFullShard},
                             {"FULL_SHARD 4", 4, ShardingStrategy::kFullShard},
                             {"FULL_SHARD 8", 8, ShardingStrategy::kFullShard},
                             {"HYBRID_SHARD 2 x 2", 4, ShardingStrategy::kFullShard, 2},
                             {"HYBRID_SHARD 2 x 4", 8, ShardingStrategy::kFullShard, 4},
                             {"HYBRID_SHARD 4 x 2", 8, ShardingStrategy::kFullShard, 2},
                             {"_HYBRID_SHARD_ZERO2 4 x 2", 8, ShardingStrategy::kShardGradOp, 2}};

// Batches of 29 and 14 of 43 samples, with microbatches of 3. The clipping norm is small enough to take effect.
TrainerOptions ElasticRun(const Case& c, int64_t batches = 15) {
  TrainerOptions options = OptionsOf(c);
  options.train.dataset = MakeRows(43);
  options.train.global_train_batch_size = 29;
  options.device_train_microbatch_size = 3;
  options.max_duration = Time::Batches(batches);
  options.virtual_shards = 8;
  AddCallback(options, {Event::kAfterTrainBatch},
              [](State& state) { ClipGradientsByNorm(state.model->parameters(), 0.05, state.sharding); });
  return options;
}

RunResult TrainOn(const Mesh4& mesh, Case c, int64_t batches = 15) {
  c.fsdp.strategy = mesh.strategy;
  c.fsdp.data_parallel_replicate_degree = mesh.replicate;
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = ElasticRun(c, batches);
    options.fsdp = c.fsdp;
    return options;
  })[static_cast<size_t>(mesh.ranks - 1)];
}

TEST(ElasticSharding, EveryStrategyOnEveryMeshHasTheSameBits) {
  const RunResult alone = Train(ElasticRun({}));
  ASSERT_EQ(alone.losses.size(), 15u);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const Mesh4& mesh : kMeshes) {
    SCOPED_TRACE(mesh.name);
    ExpectSameBits(TrainOn(mesh, {}), alone);
  }
}

// Without it, only the order of sums differs. This shows what the test above would see if a strategy deviated.
TEST(ElasticSharding, WithoutItTheBitsDiffer) {
  const auto plain = [](int ranks) {
    return TrainOnRanks(ranks, [&](int) {
      TrainerOptions options = ElasticRun({});
      options.virtual_shards = 0;
      options.fsdp.emplace();
      return options;
    })[0];
  };
  EXPECT_GT(LargestDifference(plain(2), plain(4)), 0);
}

TEST(ElasticSharding, FrozenUnusedTiedAndRepeatedBlocksToo) {
  const std::pair<const char*, Shape> shapes[] = {{"frozen", {.frozen = true}},
                                                  {"unused", {.unused = true}},
                                                  {"tied", {.tied = true}},
                                                  {"reversed", {.reversed = true}},
                                                  {"twice", {.twice = true}}};
  for (const auto& [name, shape] : shapes) {
    SCOPED_TRACE(name);
    Case c;
    c.shape = shape;
    const RunResult alone = Train(ElasticRun(c, 6));
    ExpectSameBits(TrainOn({"", 4, ShardingStrategy::kFullShard}, c, 6), alone);
    ExpectSameBits(TrainOn({"", 4, ShardingStrategy::kFullShard, 2}, c, 6), alone);
  }
}

TEST(ElasticSharding, CheckpointedActivationsOffloadAndPrefetchChangeNothing) {
  const RunResult alone = Train(ElasticRun({}, 6));
  Case c;
  c.activations.checkpoint.every = 1;
  c.fsdp.cpu_offload = true;
  c.fsdp.forward_prefetch = true;
  c.fsdp.backward_prefetch = BackwardPrefetch::kPre;
  c.fsdp.min_num_params = 200;
  ExpectSameBits(TrainOn({"", 2, ShardingStrategy::kFullShard}, c, 6), alone);
}

// Autocast is the same everywhere with parameters gathered in float32 (mixed_precision FULL). When gathered in bfloat16
// (DEFAULT), the sharding strategies agree among themselves, also on one rank; NO_SHARD gathers nothing.
TEST(ElasticSharding, MixedPrecisionToo) {
  Case c;
  c.precision = Precision::kAmpBf16;
  const RunResult alone = Train(ElasticRun(c, 6));
  ExpectSameBits(TrainOn({"", 4, ShardingStrategy::kFullShard}, c, 6), alone);
  c.fsdp.param_dtype = at::kBFloat16;
  const RunResult gathered = TrainOn({"", 1, ShardingStrategy::kFullShard}, c, 6);
  for (const Mesh4& mesh : kMeshes) {
    if (mesh.strategy == ShardingStrategy::kNoShard) continue;
    SCOPED_TRACE(mesh.name);
    ExpectSameBits(TrainOn(mesh, c, 6), gathered);
  }
}

TEST(ElasticSharding, RanksAndStrategyMayChangeAtEveryRestart) {
  TempDir dir;
  const auto run = [&](const Mesh4& mesh, int64_t batches) {
    return TrainOnRanks(mesh.ranks, [&](int) {
      TrainerOptions options = ElasticRun({}, batches);
      options.fsdp.emplace();
      options.fsdp->strategy = mesh.strategy;
      options.fsdp->data_parallel_replicate_degree = mesh.replicate;
      options.save.save_folder = dir.path();
      options.save.save_interval = Time::Batches(batches);
      return options;
    })[0];
  };
  ASSERT_TRUE(run({"", 4, ShardingStrategy::kFullShard}, 4).status.ok());
  ASSERT_TRUE(run({"", 2, ShardingStrategy::kShardGradOp}, 7).status.ok());
  ASSERT_TRUE(run({"", 4, ShardingStrategy::kFullShard, 2}, 10).status.ok());
  ASSERT_TRUE(run({"", 2, ShardingStrategy::kNoShard}, 13).status.ok());
  const RunResult last = run({"", 8, ShardingStrategy::kFullShard}, 15);
  EXPECT_THAT(last.resumed_from, testing::Not(testing::IsEmpty()));
  RunResult alone = Train(ElasticRun({}));
  alone.losses.erase(alone.losses.begin(), alone.losses.begin() + 13);
  ExpectSameBits(last, alone);
}

TEST(ElasticSharding, RefusesWhatWouldBreakIt) {
  Case c;
  EXPECT_THAT(std::string(TrainOn({"", 3, ShardingStrategy::kFullShard}, c).status.message()),
              HasSubstr("virtual_shards: 8 runs on 1, 2, 4, 8 ranks, not on 3"));
  c.precision = Precision::kAmpBf16;
  c.fsdp.param_dtype = c.fsdp.reduce_dtype = at::kBFloat16;
  EXPECT_THAT(std::string(TrainOn({"", 2, ShardingStrategy::kFullShard}, c).status.message()),
              HasSubstr("reduce_dtype: BFloat16"));
}

}  // namespace
}  // namespace composer
