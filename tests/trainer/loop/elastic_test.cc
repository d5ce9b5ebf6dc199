// Tests determinism: elastic, which gives the same bits on any number of ranks. Dropout is tested with processes
// (tests/integration/elastic_test.py), since ranks that are threads share torch's generator.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <numeric>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/collectives/tree_sum.h"
#include "trainer/elastic/tree_accumulator.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/parallel/fsdp/gradient_accumulator.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr MeshDegrees kMeshes[] = {{1, 1}, {1, 2}, {1, 8}, {2, 1}, {4, 1}, {8, 1}, {2, 2}, {2, 4}, {4, 2}};

TEST(VirtualShards, LeavesHaveTheSameSamplesOnAnyMesh) {
  for (const int64_t samples : {1, 5, 8, 43, 64}) {
    const int64_t leaves = NumLeaves(samples, 8, 3);
    for (const MeshDegrees& mesh : kMeshes) {
      std::map<int64_t, std::vector<int64_t>> of_leaf;
      for (int rank = 0; rank < mesh.shard * mesh.replicate; ++rank) {
        const LeafPlace place{mesh, rank % mesh.shard, rank / mesh.shard};
        std::vector<int64_t> rows;
        for (const SampleRange& range : SamplesOf(place, leaves, samples)) {
          EXPECT_GT(range.size(), 0);
          for (int64_t i = range.begin; i < range.end; ++i) rows.push_back(i);
        }
        const std::vector<Microbatch> plan = PlanLeaves(place, leaves, samples);
        ASSERT_EQ(static_cast<int64_t>(plan.size()), NumPasses(leaves, mesh));
        EXPECT_EQ(plan.back().end, static_cast<int64_t>(rows.size()));
        for (size_t pass = 0; pass < plan.size(); ++pass) {
          EXPECT_EQ(plan[pass].leaf, LeafOf(place, leaves, static_cast<int64_t>(pass)));
          EXPECT_EQ(RankOfLeaf(plan[pass].leaf, leaves, mesh), rank);
          EXPECT_LE(plan[pass].samples(), 3);
          of_leaf[plan[pass].leaf] = {rows.begin() + plan[pass].begin, rows.begin() + plan[pass].end};
        }
      }
      std::vector<int64_t> joined;
      for (const auto& [leaf, rows] : of_leaf) joined.insert(joined.end(), rows.begin(), rows.end());
      std::vector<int64_t> all(static_cast<size_t>(samples));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(joined, all) << samples << " on " << mesh.shard << " x " << mesh.replicate;
      EXPECT_FALSE(of_leaf[FirstLeafWithSamples(samples, leaves)].empty());
      EXPECT_EQ(of_leaf[FirstLeafWithSamples(samples, leaves)][0], 0);
    }
  }
}

// Tests the sums that the strategies make: over a pass's shard ranks, over passes, over replicas.
TEST(VirtualShards, EveryMeshSumsTheSameTree) {
  for (const int64_t leaves : {8, 16, 12, 24}) {
    std::vector<float> values;
    for (int64_t i = 0; i < leaves; ++i)
      values.push_back((i % 2 == 0 ? 1e7F : -1e7F) + 1.0F / static_cast<float>(i + 3));
    const auto sum = [](const std::vector<float>& of) {
      std::vector<const void*> parts;
      for (const float& value : of) parts.push_back(&value);
      float result = 0;
      TreeSum(at::kFloat, parts, &result, 1);
      return result;
    };
    int fitting = 0;
    for (const MeshDegrees& mesh : kMeshes) {
      if (!ValidateVirtualShards(static_cast<int>(leaves), mesh).ok()) continue;
      ++fitting;
      std::vector<float> replicas;
      for (int replicate = 0; replicate < mesh.replicate; ++replicate) {
        GradientAccumulator passes;
        const at::Tensor total = torch::zeros({1});
        passes.Init(total, /*in_tree_order=*/true);
        for (int64_t pass = 0; pass < NumPasses(leaves, mesh); ++pass) {
          std::vector<float> of_ranks;
          for (int shard = 0; shard < mesh.shard; ++shard)
            of_ranks.push_back(values[static_cast<size_t>(LeafOf({mesh, shard, replicate}, leaves, pass))]);
          passes.Add(torch::full({1}, sum(of_ranks)), pass == 0);
        }
        passes.Finish();
        EXPECT_EQ(passes.num_partials(), GradientAccumulator::NumPartialsFor(NumPasses(leaves, mesh)));
        replicas.push_back(total.item<float>());
      }
      EXPECT_EQ(sum(replicas), sum(values)) << leaves << " on " << mesh.shard << " x " << mesh.replicate;
    }
    EXPECT_GE(fitting, 3) << leaves;
  }
}

TEST(GradientAccumulator, AddsOneAfterTheOtherElse) {
  const at::Tensor total = torch::zeros({1});
  GradientAccumulator passes;
  passes.Init(total, /*in_tree_order=*/false);
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 5; ++i) passes.Add(torch::full({1}, i), i == 0);
    passes.Finish();
    EXPECT_EQ(total.item<float>(), 10);
  }
  EXPECT_EQ(passes.num_partials(), 0);
}

TEST(VirtualShards, LeavesAreNoLargerThanMicrobatches) {
  EXPECT_EQ(NumLeaves(64, 8, 0), 8);
  EXPECT_EQ(NumLeaves(64, 8, 8), 8);
  EXPECT_EQ(NumLeaves(65, 8, 8), 16);
  EXPECT_EQ(NumLeaves(64, 8, 3), 32);
  EXPECT_EQ(NumLeaves(3, 8, 1), 8);
}

TEST(VirtualShards, PlansWithoutThemAreOneShard) {
  EXPECT_THAT(PlanMicrobatches(7, 3), ElementsAre(Microbatch{0, 3, 0}, Microbatch{3, 6, 0}, Microbatch{6, 7, 0}));
  EXPECT_THAT(PlanMicrobatches(7, 0), ElementsAre(Microbatch{0, 7, 0}));
  EXPECT_THAT(PlanMicrobatches(7, 100), ElementsAre(Microbatch{0, 7, 0}));
  EXPECT_TRUE(PlanMicrobatches(0, 3).empty());
}

TEST(VirtualShards, WorldsThatCannotAreToldWhichCan) {
  EXPECT_TRUE(ValidateVirtualShards(8, {1, 4}).ok());
  EXPECT_TRUE(ValidateVirtualShards(12, {1, 3}).ok());
  EXPECT_TRUE(ValidateVirtualShards(12, {1, 1}).ok());
  EXPECT_TRUE(ValidateVirtualShards(12, {4, 1}).ok()) << "the tree over 12 is one over three sums of four";
  EXPECT_TRUE(ValidateVirtualShards(12, {2, 3}).ok());
  EXPECT_EQ(
      ValidateVirtualShards(12, {1, 4}).message(),
      "determinism: elastic with virtual_shards: 12 runs on 1, 3, 6, 12 ranks, not on 4: each rank has the same number "
      "of them, a power of two");
  EXPECT_EQ(ValidateVirtualShards(12, {3, 1}).message(),
            "determinism: elastic with virtual_shards: 12 runs on 1, 2, 4 ranks, not on 3: the ranks that share the "
            "parameters are a power of two and divide the shards of a replica");
  EXPECT_THAT(std::string(ValidateVirtualShards(8, {8, 2}).message()),
              HasSubstr("runs on 2, 4, 8 ranks in 2 replicas"));
  EXPECT_FALSE(ValidateVirtualShards(0, {1, 1}).ok());
  for (const int world : {1, 2, 3, 5, 7, 8, 12, 16, 100})
    EXPECT_TRUE(ValidateVirtualShards(DefaultVirtualShards(world), {1, world}).ok()) << world;
  EXPECT_EQ(DefaultVirtualShards(1), 8);
  EXPECT_EQ(DefaultVirtualShards(3), 12);
}

TEST(TreeAccumulator, SumsAsTreeSumDoes) {
  TreeAccumulator accumulator;
  for (int n = 1; n <= 17; ++n) {
    std::vector<at::Tensor> terms;
    std::vector<const void*> parts;
    for (int i = 0; i < n; ++i) {
      terms.push_back(torch::full({1}, (i % 2 == 0 ? 1e7F : -1e7F) + 1.0F / static_cast<float>(i + 3)));
      parts.push_back(terms.back().const_data_ptr());
      accumulator.Add({terms.back().clone(), at::Tensor()});
    }
    const at::Tensor wanted = torch::empty({1});
    TreeSum(at::kFloat, parts, wanted.mutable_data_ptr(), 1);
    const TreeAccumulator::Term sum = accumulator.Take();
    EXPECT_TRUE(sum[0].equal(wanted)) << n;
    EXPECT_FALSE(sum[1].defined());
    EXPECT_TRUE(accumulator.Take().empty());
  }
}

TEST(TreeAccumulator, WhatIsNotThereCountsAsZeros) {
  TreeAccumulator accumulator;
  accumulator.Add({at::Tensor()});
  accumulator.Add({torch::full({1}, -0.0F)});
  const at::Tensor sum = accumulator.Take()[0];
  EXPECT_FALSE(std::signbit(sum.item<float>())) << "0 + -0 is 0, as it is when a rank sums real zeros";
}

TrainerOptions ElasticRun(const ModelShape& shape, int64_t rows, int64_t batch) {
  TrainerOptions options = SmallRun(shape);
  options.train.dataset = MakeRows(rows);
  options.train.global_train_batch_size = batch;
  options.max_duration = Time::Batches(100);
  options.virtual_shards = 8;
  return options;
}

TEST(Elastic, AHundredStepsHaveTheSameBitsOn1And2And4And8Ranks) {
  const auto run = [](int) { return ElasticRun({.batch_norm = true}, 96, 32); };
  const RunResult alone = Train(run(0));
  ASSERT_EQ(alone.losses.size(), 100u);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    for (const RunResult& each : TrainOnRanks(ranks, run)) ExpectSameBits(each, alone);  // including buffers
  }
}

// Batches of 16 of 43 samples, the last one of 11; the microbatches do not divide the shards evenly, either.
TEST(Elastic, UnevenBatchesAndMicrobatchesToo) {
  const auto run = [](int) {
    TrainerOptions options = ElasticRun({.hidden = 37}, 43, 16);
    options.train.global_train_batch_size = 29;
    options.device_train_microbatch_size = 3;
    return options;
  };
  const RunResult alone = Train(run(0));
  for (const int ranks : {2, 8}) {
    SCOPED_TRACE(ranks);
    ExpectSameBits(TrainOnRanks(ranks, run)[static_cast<size_t>(ranks - 1)], alone);
  }
}

TEST(Elastic, TorchHasItsThreadsBackWhenTheTrainerIsGone) {
  TrainerOptions options = ElasticRun({}, 96, 32);
  at::set_num_threads(2);
  {
    const auto trainer = Trainer::Create(std::move(options));
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_EQ(at::get_num_threads(), 1);
  }
  EXPECT_EQ(at::get_num_threads(), 2);
  at::set_num_threads(1);
}

// Shows what the tests above would see if the mode did nothing.
TEST(Elastic, WithoutItTheBitsDiffer) {
  const auto run = [](int) {
    TrainerOptions options = ElasticRun({}, 96, 32);
    options.virtual_shards = 0;
    return options;
  };
  EXPECT_GT(LargestDifference(Train(run(0)), TrainOnRanks(4, run)[0]), 0);
}

TEST(Elastic, TheNumberOfRanksMayChangeAtEveryRestart) {
  TempDir dir;
  const auto run = [&](int64_t batches, const std::string& folder) {
    TrainerOptions options = ElasticRun({.batch_norm = true}, 96, 32);
    options.virtual_shards = kDefaultVirtualShards;
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(batches);
    return options;
  };
  TrainOnRanks(4, [&](int) { return run(30, dir.path()); });
  const RunResult second = TrainOnRanks(2, [&](int) { return run(60, dir.path()); })[0];
  EXPECT_THAT(second.resumed_from, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(second.losses.size(), 30u);
  const RunResult last = TrainOnRanks(8, [&](int) { return run(100, dir.path()); })[0];
  ASSERT_TRUE(last.status.ok()) << last.status;
  EXPECT_EQ(last.losses.size(), 40u);
  RunResult alone = Train(run(100, ""));
  alone.losses.erase(alone.losses.begin(), alone.losses.begin() + 60);
  ExpectSameBits(last, alone);
}

TEST(Elastic, TheNumberOfShardsIsFrozenInTheCheckpoint) {
  TempDir dir;
  const auto run = [&](int shards, int64_t batches) {
    TrainerOptions options = ElasticRun({}, 96, 32);
    options.max_duration = Time::Batches(batches);
    options.virtual_shards = shards;
    options.save.save_folder = dir.path();
    return Train(std::move(options));
  };
  ASSERT_TRUE(run(16, 3).status.ok());
  const RunResult changed = run(8, 6);
  EXPECT_EQ(changed.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(changed.status.message()), HasSubstr("virtual_shards: 8, but checkpoint "));
  EXPECT_TRUE(run(kDefaultVirtualShards, 6).status.ok());
}

TEST(Elastic, RefusesWhatWouldBreakIt) {
  const auto three = TrainOnRanks(3, [](int) { return ElasticRun({}, 96, 32); });
  EXPECT_THAT(std::string(three[0].status.message()), HasSubstr("runs on 1, 2, 4, 8 ranks, not on 3"));
  TrainerOptions automatic = ElasticRun({}, 96, 32);
  automatic.device_train_microbatch_size = kAutoMicrobatch;
  EXPECT_THAT(std::string(Train(std::move(automatic)).status.message()),
              HasSubstr("device_train_microbatch_size: auto"));
}

}  // namespace
}  // namespace composer
