// The number of ranks changes nothing but rounding, and a step makes no collective besides its gradient buckets.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

// 43 samples in batches of 8: 3 ranks have shares of 2 and 3 samples; the last batch has 3.
TrainerOptions Uneven(int64_t size = 43) {
  TrainerOptions options = SmallRun();
  options.train.dataset = MakeRows(size, 8, 4, /*tokens_per_sample=*/7);
  return options;
}

void ExpectSame(const RunResult& a, const RunResult& b) {
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_LT(LargestDifference(a, b), 2e-5);
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 1e-5) << "step " << i;
  EXPECT_EQ(a.timestamp.sample, b.timestamp.sample);
  EXPECT_EQ(a.timestamp.token, b.timestamp.token);
  EXPECT_EQ(a.timestamp.batch, b.timestamp.batch);
}

TEST(Ranks, OneTwoAndThreeTrainTheSame) {
  const RunResult one = Train(Uneven());
  ASSERT_TRUE(one.status.ok()) << one.status;
  EXPECT_EQ(one.timestamp.sample, 86);
  EXPECT_EQ(one.timestamp.token, 86 * 7);
  for (const int size : {1, 2, 3}) {
    SCOPED_TRACE(size);
    for (const RunResult& result : TrainOnRanks(size, [](int) { return Uneven(); })) ExpectSame(one, result);
  }
}

TEST(Ranks, ALastBatchSmallerThanTheNumberOfRanks) {
  const RunResult one = Train(Uneven(41));  // the last batch has 1 sample
  const auto results = TrainOnRanks(3, [](int) { return Uneven(41); });
  for (const RunResult& result : results) ExpectSame(one, result);
  EXPECT_EQ(LargestDifference(results[0], results[2]), 0) << "ranks must hold the same bits";
}

TEST(Ranks, MicrobatchesAndRanksTogether) {
  const RunResult one = Train(Uneven());
  const auto options = [](int) {
    TrainerOptions result = Uneven();
    result.device_train_microbatch_size = 2;
    return result;
  };
  for (const RunResult& result : TrainOnRanks(3, options)) ExpectSame(one, result);
}

TEST(Ranks, ReadEachSampleOfAnEpochOnce) {
  std::mutex mutex;
  std::multiset<int64_t> ids;
  TrainOnRanks(3, [&](int) {
    TrainerOptions options = Uneven(41);
    options.max_duration = Time::Epochs(1);
    AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
      const std::lock_guard<std::mutex> lock(mutex);
      ids.insert(state.batch.sample_ids.begin(), state.batch.sample_ids.end());
    });
    return options;
  });
  ASSERT_EQ(ids.size(), 41u);
  for (int64_t i = 0; i < 41; ++i) EXPECT_EQ(ids.count(i), 1u) << i;
}

TEST(Ranks, TrainMetricsCountAllRanks) {
  std::vector<double> one, two;
  const auto record = [](std::vector<double>* values) {
    TrainerOptions options = Uneven();
    AddCallback(options, {Event::kBatchEnd},
                [values](State& state) { values->push_back(state.train_metrics[0]->Compute()); });
    return options;
  };
  ASSERT_TRUE(Train(record(&one)).status.ok());
  std::vector<double> other;
  TrainOnRanks(2, [&](int rank) { return record(rank == 0 ? &two : &other); });
  ASSERT_EQ(one.size(), 12u);
  EXPECT_THAT(two, testing::Pointwise(testing::DoubleNear(1e-12), one));
  EXPECT_EQ(two, other);
}

// Metrics, callbacks and a supervisor are on. Besides the steps' collectives there is one vote per epoch on whether to
// stop.
TEST(Ranks, AStepMakesNoCollectiveButItsBuckets) {
  for (const int64_t hidden : {int64_t{16}, int64_t{60000}}) {  // 960,000 floats need several buckets
    for (const int64_t steps : {3, 9}) {
      const auto options = [&](int) {
        TrainerOptions result = SmallRun({.hidden = hidden});
        result.train.dataset = MakeRows(400);
        result.max_duration = Time::Batches(steps);
        AddCallback(result, EventSet::All(), [](State&) {});
        return result;
      };
      for (const RunResult& result : TrainOnRanks(2, options)) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        // With several buckets, their order is agreed on once per run.
        const int64_t order = hidden == 60000 ? 1 : 0;
        EXPECT_EQ(result.num_collectives, steps * result.collectives_per_step + order);
        EXPECT_EQ(result.collectives_per_step > 1, hidden == 60000) << result.collectives_per_step;
      }
    }
  }
  for (const RunResult& result : TrainOnRanks(2, [](int) { return SmallRun(); })) {
    EXPECT_EQ(result.num_collectives, 10 * result.collectives_per_step + 2) << "2 epochs";
  }
}

TEST(Ranks, StartFromRankZerosWeights) {
  const auto options = [](int rank) {
    TrainerOptions result = SmallRun({.batch_norm = true});
    FillParameters(*result.model, rank == 0 ? 0.3F : 0.9F);
    return result;
  };
  const RunResult one = Train(options(0));
  const auto results = TrainOnRanks(2, options);
  EXPECT_NEAR(results[0].losses[0], results[1].losses[0], 0);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_TRUE(results[0].tensors[i].second.equal(results[1].tensors[i].second)) << results[0].tensors[i].first;
  }
}

TEST(Ranks, MoreThanTheBatchHasSamplesAreRefused) {
  const auto results = TrainOnRanks(3, [](int) {
    TrainerOptions options = SmallRun();
    options.train.global_train_batch_size = 2;
    return options;
  });
  for (const RunResult& result : results) {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("global_train_batch_size: 2"));
  }
}

}  // namespace
}  // namespace composer
