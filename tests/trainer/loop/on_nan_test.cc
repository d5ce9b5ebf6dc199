// Tests what a run does with a step whose loss or gradients are not finite: the same on all ranks, with every strategy.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/callbacks/monitors/nan_monitor.h"

namespace composer {
namespace {

using testing::HasSubstr;

enum class Where { kLoss, kGradient, kInfiniteGradient };

struct Way {
  const char* name;
  int ranks;
  std::optional<ShardingStrategy> strategy;
  bool elastic = false;
};
const Way kWays[] = {{"one rank", 1, {}},
                     {"one rank, elastic", 1, {}, true},
                     {"one rank, sharded", 1, ShardingStrategy::kFullShard},
                     {"DDP", 3, {}},
                     {"DDP, elastic", 2, {}, true},
                     {"SHARD_GRAD_OP", 3, ShardingStrategy::kShardGradOp},
                     {"FULL_SHARD", 3, ShardingStrategy::kFullShard},
                     {"FULL_SHARD, elastic", 2, ShardingStrategy::kFullShard, true}};

// Spoils values on the last rank, which has the fewest samples, at these batches.
void Spoil(TrainerOptions& options, Where where, std::vector<int64_t> batches) {
  const auto now = [batches](const State& state) {
    return std::find(batches.begin(), batches.end(), state.timestamp.batch) != batches.end();
  };
  if (where == Where::kLoss) {
    AddCallback(options, {Event::kAfterLoss}, [now](State& state) {
      if (now(state)) state.loss = state.loss * NAN;
    });
    return;
  }
  // Spoils one element of the smallest gradient.
  AddCallback(options, {Event::kInit}, [where, now](State& state) {
    state.model->parameters().back().register_hook([&state, where, now](const at::Tensor& grad) {
      if (!now(state)) return grad;
      at::Tensor spoiled = grad.clone();
      spoiled[3] = where == Where::kGradient ? NAN : INFINITY;
      return spoiled;
    });
  });
}

std::vector<RunResult> TrainWay(const Way& way, const std::function<void(TrainerOptions&, int rank)>& change,
                                const ModelShape& shape = {}) {
  return TrainOnRanks(way.ranks, [&](int rank) {
    TrainerOptions options = SmallRun(shape);
    if (way.strategy) options.fsdp.emplace().strategy = *way.strategy;
    if (way.elastic) options.virtual_shards = 4;
    change(options, rank);
    return options;
  });
}

TEST(OnNan, StopsAllRanksAtTheStepBeforeTheUpdate) {
  for (const Way& way : kWays) {
    for (const Where where : {Where::kLoss, Where::kGradient, Where::kInfiniteGradient}) {
      SCOPED_TRACE(testing::Message() << way.name << ", " << static_cast<int>(where));
      TempDir dir;
      const auto results = TrainWay(way, [&](TrainerOptions& options, int rank) {
        if (rank == way.ranks - 1) Spoil(options, where, {6});
        options.save.save_folder = dir.Path("saves");
        options.save.save_interval = Time::Batches(2);
      });
      for (const RunResult& result : results) {
        EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << "64: it is not tried again";
        EXPECT_THAT(std::string(result.status.message()),
                    HasSubstr(where == Where::kLoss ? "the loss of batch 7 (epoch 1) is NaN"
                                                    : "a gradient of batch 7 (epoch 1) is NaN or infinite"));
        EXPECT_EQ(result.losses.size(), 6) << "the steps before";
      }
      ASSERT_THAT(Checkpoints(dir.Path("saves")), testing::ElementsAre("ep0-ba2", "ep0-ba4", "ep1-ba6"));
      for (const auto& [name, tensor] : NewestCheckpoint(dir.Path("saves")).tensors)
        EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
    }
  }
}

// The rest of the run is as if the optimizer had been absent for one step.
TEST(OnNan, SkipLeavesTheSameStepOutOnAllRanks) {
  for (const Way& way : kWays) {
    for (const Where where : {Where::kLoss, Where::kGradient}) {
      SCOPED_TRACE(testing::Message() << way.name << ", " << static_cast<int>(where));
      std::vector<std::vector<int64_t>> skipped(static_cast<size_t>(way.ranks));
      const auto results = TrainWay(way, [&](TrainerOptions& options, int rank) {
        options.on_nan = OnNan::kSkip;
        if (rank == way.ranks - 1) Spoil(options, where, {2, 3, 7});
        AddCallback(options, {Event::kBatchEnd}, [&skipped, rank](State& state) {
          skipped[static_cast<size_t>(rank)].push_back(state.settings.nan.skipped_steps());
        });
      });
      for (int rank = 0; rank < way.ranks; ++rank) {
        const RunResult& result = results[static_cast<size_t>(rank)];
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(skipped[static_cast<size_t>(rank)], (std::vector<int64_t>{0, 0, 1, 2, 2, 2, 2, 3, 3, 3}));
        EXPECT_EQ(std::isnan(result.losses[2]), where == Where::kLoss);
        EXPECT_LT(result.losses[9], result.losses[0]);
        for (const auto& [name, tensor] : result.tensors) EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
        EXPECT_EQ(LargestDifference(result, results[0]), 0);
      }
    }
  }
}

TEST(OnNan, ASkippedStepLeavesBuffersAlone) {
  for (const int ranks : {1, 2}) {
    const Way way = {"", ranks, {}};
    const auto results = TrainWay(way,
                                  [&](TrainerOptions& options, int) {
                                    options.on_nan = OnNan::kSkip;
                                    // The samples are bad, so the running statistics of the whole batch are NaN.
                                    AddCallback(options, {Event::kBatchStart}, [](State& state) {
                                      if (state.timestamp.batch == 4) state.batch.inputs = state.batch.inputs * NAN;
                                    });
                                  },
                                  {.batch_norm = true});
    for (const RunResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      for (const auto& [name, tensor] : result.tensors)
        EXPECT_TRUE(tensor.to(at::kDouble).isfinite().all().item<bool>()) << name;
    }
  }
}

TEST(OnNan, TooManyInARowEndTheRun) {
  const auto results = TrainWay({"", 2, {}}, [](TrainerOptions& options, int rank) {
    options.on_nan = OnNan::kSkip;
    options.max_duration = Time::Epochs(9);
    std::vector<int64_t> batches = {1};
    for (int64_t batch = 4; batch < 40; ++batch) batches.push_back(batch);
    if (rank == 1) Spoil(options, Where::kGradient, batches);
  });
  for (const RunResult& result : results) {
    EXPECT_EQ(result.losses.size(), 14);
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("a gradient of batch 15 (epoch 2) is NaN or infinite"));
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("the 11th such step in a row"));
  }
}

TEST(OnNan, ContinueIsWhatComposerDoes) {
  for (const bool compat : {false, true}) {
    TrainerOptions options = SmallRun();
    if (compat) {
      options.composer_compat = true;
    } else {
      options.on_nan = OnNan::kContinue;
    }
    Spoil(options, Where::kGradient, {3});
    const RunResult result = Train(std::move(options));
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(std::isnan(result.losses.back()));
  }
}

TEST(OnNan, TheScalersStepsAreItsOwn) {
  TrainerOptions options = SmallRun();
  options.precision = Precision::kAmpFp16;
  Spoil(options, Where::kInfiniteGradient, {3});
  std::vector<int64_t> counts(2);
  AddCallback(options, {Event::kBatchEnd}, [&counts](State& state) {
    counts = {state.settings.scaler->skipped_steps(), state.settings.nan.in_a_row()};
  });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GE(counts[0], 1);
  EXPECT_EQ(counts[1], 0);
}

TEST(OnNan, TheMonitorsErrorComesFirst) {
  TrainerOptions options = SmallRun();
  options.on_nan = OnNan::kSkip;
  options.callbacks.push_back(std::make_unique<NaNMonitor>());
  Spoil(options, Where::kLoss, {3});
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("NaNMonitor"));
}

TEST(OnNan, AStepHasNoFurtherCollective) {
  const auto results = TrainWay({"", 2, {}}, [](TrainerOptions&, int) {});
  ASSERT_TRUE(results[0].status.ok()) << results[0].status;
  EXPECT_EQ(results[0].collectives_per_step, 1);
  EXPECT_EQ(results[0].num_collectives, 10 + 2) << "and one an epoch, to agree on stopping";
}

TEST(OnNan, SkippedStepsAreLoggedAndSurviveAResume) {
  TempDir dir;
  const auto run = [&](Time duration, std::vector<double>& logged) {
    TrainerOptions options = SmallRun();
    options.on_nan = OnNan::kSkip;
    options.max_duration = duration;
    options.save.save_folder = dir.path();
    options.save.save_interval = Time::Batches(1);
    Spoil(options, Where::kLoss, {2, 6});
    AddCallback(options, {Event::kBatchEnd},
                [&logged](State& state) { logged.push_back(static_cast<double>(state.settings.nan.skipped_steps())); });
    return Train(std::move(options));
  };
  std::vector<double> first, second;
  ASSERT_TRUE(run(Time::Batches(5), first).status.ok());
  ASSERT_TRUE(run(Time::Batches(10), second).status.ok());
  EXPECT_EQ(first, (std::vector<double>{0, 0, 1, 1, 1}));
  EXPECT_EQ(second, (std::vector<double>{1, 2, 2, 2, 2}));
}

}  // namespace
}  // namespace composer
