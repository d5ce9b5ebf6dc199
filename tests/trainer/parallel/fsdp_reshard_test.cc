// A run saved on N ranks resumes on M, for 1, 2, 3, 4 and 8 of each: under one strategy, and from each strategy to the
// next.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/core/model_sharding.h"

namespace composer {
namespace {

constexpr int kWorlds[] = {1, 2, 3, 4, 8};
constexpr int64_t kSavedAt = 5, kEnd = 10;

struct Strategy {
  const char* name;
  ShardingStrategy sharding;
  bool hybrid = false;  // two replicas, where the ranks can be halved
};
constexpr Strategy kStrategies[] = {{"NO_SHARD", ShardingStrategy::kNoShard},
                                    {"SHARD_GRAD_OP", ShardingStrategy::kShardGradOp},
                                    {"FULL_SHARD", ShardingStrategy::kFullShard},
                                    {"HYBRID_SHARD", ShardingStrategy::kFullShard, true}};

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

Tensors WholeParameters(State& state) {
  if (state.sharding != nullptr) return state.sharding->WholeParameters();
  Tensors whole;
  for (const auto& item : state.model->named_parameters())
    whole.emplace_back(item.key(), item.value().detach().clone());
  return whole;
}

// `begun` receives the gathered state with which rank 0 begins after loading.
std::vector<RunResult> RunOn(int ranks, const Strategy& strategy, int64_t batches, const std::string& folder,
                             Tensors* begun = nullptr) {
  return TrainOnRanks(ranks, [&](int rank) {
    Case c;
    c.shape.tied = true;
    TrainerOptions options = OptionsOf(c);
    options.fsdp.emplace().strategy = strategy.sharding;
    if (strategy.hybrid && ranks % 2 == 0) options.fsdp->data_parallel_replicate_degree = 2;
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    if (begun != nullptr) {
      AddCallback(options, {Event::kFitStart}, [=](State& state) {
        const Tensors whole = WholeParameters(state);
        if (state.identity.rank == 0) *begun = whole;
      });
    }
    return options;
  });
}

// A sum in another order changes a loss by some 1e-7. Another batch, as the losses of an undisturbed run show, changes
// it by more than a thousand times the tolerance.
constexpr double kTolerance = 1e-5;

double LargestLossDifference(const RunResult& tail, const RunResult& undisturbed) {
  double largest = 0;
  for (size_t i = 0; i < tail.losses.size(); ++i)
    largest = std::max(largest, std::abs(tail.losses[i] - undisturbed.losses[static_cast<size_t>(kSavedAt) + i]));
  return largest;
}

// The folders of runs of `strategy` up to kSavedAt, by number of ranks, and the result of each run.
struct SavedRuns {
  std::map<int, std::unique_ptr<TempDir>> folders;
  std::map<int, RunResult> results;

  explicit SavedRuns(const Strategy& strategy) {
    for (const int ranks : kWorlds) {
      folders[ranks] = std::make_unique<TempDir>();
      results[ranks] = RunOn(ranks, strategy, kSavedAt, folders[ranks]->path())[0];
      EXPECT_TRUE(results[ranks].status.ok()) << strategy.name << " on " << ranks << results[ranks].status;
    }
  }
  // Makes a copy of what `ranks` ranks saved.
  std::string Copy(int ranks, const TempDir& into) const {
    const std::string folder = into.Path("copy");
    std::filesystem::copy(folders.at(ranks)->path(), folder, std::filesystem::copy_options::recursive);
    return folder;
  }
};

// Gathered after the load, the parameters have the bits that were saved; then the losses are those of the run on one
// rank.
void ExpectGoesOn(const SavedRuns& saved, int from, int to, const Strategy& strategy, const RunResult& alone) {
  const TempDir folder;
  RunResult begun;
  const auto results = RunOn(to, strategy, kEnd, saved.Copy(from, folder), &begun.tensors);
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_FALSE(result.resumed_from.empty());
    ASSERT_EQ(result.losses.size(), kEnd - kSavedAt);
    EXPECT_LE(LargestLossDifference(result, alone), kTolerance);
    EXPECT_LE(RelativeError(result, alone), 1e-6);
  }
  EXPECT_EQ(LargestDifference(begun, saved.results.at(from)), 0) << "what it began with";
}

TEST(FsdpReshard, ABatchOutOfPlaceWouldShow) {
  const TempDir folder;
  const RunResult alone = RunOn(1, kStrategies[0], kEnd, folder.path())[0];
  for (size_t i = kSavedAt; i < alone.losses.size(); ++i) {
    for (size_t k = kSavedAt; k < i; ++k) EXPECT_GT(std::abs(alone.losses[i] - alone.losses[k]), 100 * kTolerance);
  }
}

TEST(FsdpReshard, AnyRanksIntoAnyOther) {
  const TempDir folder;
  const RunResult alone = RunOn(1, kStrategies[0], kEnd, folder.path())[0];
  size_t pair = 0;  // each pair of numbers is also tested into another strategy, which varies from pair to pair
  for (const Strategy& strategy : kStrategies) {
    const SavedRuns saved(strategy);
    for (const int from : kWorlds) {
      for (const int to : kWorlds) {
        SCOPED_TRACE(testing::Message() << strategy.name << " on " << from << " ranks, then on " << to);
        ExpectGoesOn(saved, from, to, strategy, alone);
        const Strategy& other = kStrategies[pair++ % std::size(kStrategies)];
        if (other.name == strategy.name) continue;
        SCOPED_TRACE(testing::Message() << "as " << other.name);
        ExpectGoesOn(saved, from, to, other, alone);
      }
    }
  }
}

TEST(FsdpReshard, TheSameRanksGoOnBitForBit) {
  for (const Strategy& strategy : kStrategies) {
    const SavedRuns saved(strategy);
    for (const int ranks : kWorlds) {
      SCOPED_TRACE(testing::Message() << strategy.name << " on " << ranks << " ranks");
      const TempDir undisturbed_folder, copy;
      const RunResult undisturbed = RunOn(ranks, strategy, kEnd, undisturbed_folder.path())[0];
      const RunResult resumed = RunOn(ranks, strategy, kEnd, saved.Copy(ranks, copy))[0];
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_EQ(LargestDifference(resumed, undisturbed), 0);
      EXPECT_EQ(LargestLossDifference(resumed, undisturbed), 0);
    }
  }
}

}  // namespace
}  // namespace composer
