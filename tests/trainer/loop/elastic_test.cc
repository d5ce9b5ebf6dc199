// determinism: elastic: the same bits on any number of ranks. Dropout is tested with processes
// (tests/integration/elastic_test.py): ranks that are threads share torch's generator.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/parallel/tree_accumulator.h"
#include "trainer/parallel/tree_sum.h"
#include "trainer/virtual_shards.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(VirtualShards, AreTheSamePiecesOnAnyNumberOfRanks) {
  for (const int64_t samples : {0, 1, 5, 8, 43, 64}) {
    std::vector<int64_t> sizes;
    for (const Microbatch& each : PlanVirtualShards(samples, 0, 1, 8, 3)) sizes.push_back(each.samples());
    for (const int world : {2, 4, 8}) {
      std::vector<int64_t> of_world;
      int shard = 0;
      for (int rank = 0; rank < world; ++rank) {
        int64_t next = 0;  // a rank's rows follow each other from 0 to its share's end
        for (const Microbatch& each : PlanVirtualShards(samples, rank, world, 8, 3)) {
          EXPECT_EQ(each.begin, next);
          EXPECT_GE(each.shard, shard);
          next = each.end;
          shard = each.shard;
          of_world.push_back(each.samples());
        }
        EXPECT_EQ(next, samples * (rank + 1) / world - samples * rank / world);
      }
      EXPECT_EQ(of_world, sizes) << samples << " on " << world;
    }
  }
}

TEST(VirtualShards, PlansWithoutThemAreOneShard) {
  EXPECT_THAT(PlanMicrobatches(7, 3), ElementsAre(Microbatch{0, 3, 0}, Microbatch{3, 6, 0}, Microbatch{6, 7, 0}));
  EXPECT_THAT(PlanMicrobatches(7, 0), ElementsAre(Microbatch{0, 7, 0}));
  EXPECT_THAT(PlanMicrobatches(7, 100), ElementsAre(Microbatch{0, 7, 0}));
  EXPECT_TRUE(PlanMicrobatches(0, 3).empty());
}

TEST(VirtualShards, WorldsThatCannotAreToldWhichCan) {
  EXPECT_TRUE(ValidateVirtualShards(8, 4).ok());
  EXPECT_TRUE(ValidateVirtualShards(12, 3).ok());
  EXPECT_EQ(
      ValidateVirtualShards(12, 4).message(),
      "determinism: elastic with virtual_shards: 12 runs on 3, 6, 12 ranks, not on 4: each rank has the same number "
      "of them, a power of two");
  EXPECT_FALSE(ValidateVirtualShards(0, 1).ok());
  for (const int world : {1, 2, 3, 5, 7, 8, 12, 16, 100})
    EXPECT_TRUE(ValidateVirtualShards(DefaultVirtualShards(world), world).ok()) << world;
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
      accumulator.Add({{terms.back().clone(), at::Tensor()}, {static_cast<double>(i)}});
    }
    const at::Tensor wanted = torch::empty({1});
    TreeSum(at::kFloat, parts, wanted.mutable_data_ptr(), 1);
    const TreeTerm sum = accumulator.Take();
    EXPECT_TRUE(sum.tensors[0].equal(wanted)) << n;
    EXPECT_FALSE(sum.tensors[1].defined());
    EXPECT_EQ(sum.numbers[0], n * (n - 1) / 2);
    EXPECT_TRUE(accumulator.Take().tensors.empty());
  }
}

TEST(TreeAccumulator, WhatIsNotThereCountsAsZeros) {
  TreeAccumulator accumulator;
  accumulator.Add({{at::Tensor()}, {}});
  accumulator.Add({{torch::full({1}, -0.0F)}, {}});
  const at::Tensor sum = accumulator.Take().tensors[0];
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

void ExpectSameBits(const RunResult& a, const RunResult& b) {
  ASSERT_TRUE(a.status.ok()) << a.status;
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  ASSERT_FALSE(a.tensors.empty());
  for (size_t i = 0; i < a.tensors.size(); ++i)
    EXPECT_TRUE(a.tensors[i].second.equal(b.tensors[i].second)) << a.tensors[i].first;
}

TEST(Elastic, AHundredStepsHaveTheSameBitsOn1And2And4And8Ranks) {
  const auto run = [](int) { return ElasticRun({.batch_norm = true}, 96, 32); };
  const RunResult alone = Train(run(0));
  ASSERT_EQ(alone.losses.size(), 100u);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int ranks : {2, 4, 8}) {
    SCOPED_TRACE(ranks);
    ExpectSameBits(TrainOnRanks(ranks, run)[0], alone);  // buffers are rank 0's
  }
}

// Batches of 16 of 43 samples, the last one of 11; microbatches inside the shards do not divide them either.
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

// What the tests above would see if the mode did nothing.
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
