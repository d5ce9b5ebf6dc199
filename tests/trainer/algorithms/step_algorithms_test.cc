// Tests gradient clipping, SAM, LBFGS and SelectiveBackprop on several ranks, sharded, resumed, and in steps that fail.
// SPDX-License-Identifier: Apache-2.0
#include "tests/trainer/algorithms/step_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/step_runs.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/algorithms/augment/mixup.h"
#include "trainer/algorithms/schedule/layer_freezing.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct Named {
  const char* name;
  StepAlgorithm algorithm;
};

const Named kSteps[] = {
    {"norm", {.clipping = ClippingType::kNorm, .threshold = 0.2}},
    {"value", {.clipping = ClippingType::kValue, .threshold = 0.01}},
    {"adaptive", {.clipping = ClippingType::kAdaptive, .threshold = 0.05}},
    {"sam", {.sam = SamOptions{.rho = 0.3, .interval = 2}}},
};

// The model has frozen and shared parameters.
TrainerOptions BlockRun(const StepAlgorithm& algorithm, bool sharded) {
  Case c;
  c.shape.frozen = c.shape.tied = true;
  c.microbatch = 3;
  TrainerOptions options = OptionsOf(c);
  AddStepAlgorithm(options, algorithm);
  options.make_optimizer = DecoupledSGDW(0.1, {.momentum = 0.9});
  if (sharded) options.fsdp.emplace();
  return options;
}

TEST(StepAlgorithms, ShardedRunsAreThoseOfOneRank) {
  for (const auto& [name, algorithm] : kSteps) {
    const RunResult alone = Train(BlockRun(algorithm, false));
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_GT(RelativeError(alone, Train(BlockRun({}, false))), 1e-3) << name << " has an effect";
    for (const int ranks : {1, 2, 4}) {
      SCOPED_TRACE(std::string(name) + " on " + std::to_string(ranks));
      const std::vector<RunResult> results = TrainOnRanks(ranks, [&](int) { return BlockRun(algorithm, true); });
      ASSERT_TRUE(results[0].status.ok()) << results[0].status;
      EXPECT_LE(RelativeError(results[0], alone), 2e-6);
    }
  }
}

TEST(StepAlgorithms, RanksWithCopiesKeepTheSameBits) {
  for (const auto& [name, algorithm] : kSteps) {
    SCOPED_TRACE(name);
    const std::vector<RunResult> results = TrainOnRanks(3, [&](int) { return BlockRun(algorithm, false); });
    for (const RunResult& result : results) ExpectSameBits(result, results[0]);
    if (!algorithm.sam) EXPECT_LE(RelativeError(results[0], Train(BlockRun(algorithm, false))), 2e-6);
  }
}

TEST(StepAlgorithms, ElasticRunsHaveTheSameBitsOnAnyNumberOfRanks) {
  for (const auto& [name, algorithm] : kSteps) {
    SCOPED_TRACE(name);
    const auto run = [&](bool sharded) {
      TrainerOptions options = BlockRun(algorithm, sharded);
      options.virtual_shards = 8;
      return options;
    };
    const RunResult alone = Train(run(false));
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    for (const bool sharded : {false, true}) {
      for (const int ranks : {2, 4}) ExpectSameBits(TrainOnRanks(ranks, [&](int) { return run(sharded); })[0], alone);
    }
  }
}

// Gradients that are still scaled by 65,536 would be clipped to next to nothing, or take SAM somewhere else.
TEST(StepAlgorithms, SeeUnscaledGradientsInFp16) {
  for (const auto& [name, algorithm] : kSteps) {
    const auto run = [&](Precision precision, bool sharded) {
      TrainerOptions options = BlockRun(algorithm, sharded);
      options.precision = precision;
      return options;
    };
    const RunResult exact = Train(run(Precision::kFp32, false));
    for (const int ranks : {1, 2}) {
      for (const bool sharded : {false, true}) {
        SCOPED_TRACE(std::string(name) + " on " + std::to_string(ranks) + (sharded ? ", sharded" : ""));
        const RunResult half = TrainOnRanks(ranks, [&](int) { return run(Precision::kAmpFp16, sharded); })[0];
        ASSERT_TRUE(half.status.ok()) << half.status;
        EXPECT_LE(RelativeError(half, exact), ranks == 2 && algorithm.sam ? 5e-2 : 1e-2);
      }
    }
  }
}

TEST(StepAlgorithms, SamTakesNoCollectiveMoreWithCopiesOfTheParameters) {
  const auto collectives = [](const StepAlgorithm& algorithm) {
    return TrainOnRanks(2, [&](int) { return BlockRun(algorithm, false); })[0].num_collectives;
  };
  EXPECT_EQ(collectives({.sam = SamOptions{}}), collectives({}));
}

RunResult TrainStopped(const StepAlgorithm& algorithm, int ranks, bool sharded, const std::string& folder,
                       int64_t batches) {
  return TrainOnRanks(ranks, [&](int) {
    TrainerOptions options = SmallRun({.batch_norm = true});
    AddStepAlgorithm(options, algorithm);
    if (sharded) options.fsdp.emplace();
    options.max_duration = Time::Batches(10);
    if (batches < 10)
      AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
        if (state.timestamp.batch >= batches) state.StopTraining();
      });
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(100);
    return options;
  })[0];
}

TEST(StepAlgorithms, ResumedRunsEndAsThoseThatWereNotStopped) {
  std::vector<Named> cases(std::begin(kSteps), std::end(kSteps));
  cases.push_back({"lbfgs", {.lbfgs = LbfgsOptions{.max_iter = 4, .history_size = 7}}});
  cases.push_back({"lbfgs with a line search", {.lbfgs = LbfgsOptions{.max_iter = 4, .strong_wolfe = true}}});
  cases.push_back(
      {"selective_backprop", {.selective_backprop = SelectiveBackpropOptions{.start = 0.1, .interrupt = 3}}});
  for (const auto& [name, algorithm] : cases) {
    for (const auto& [ranks, sharded] : {std::pair{1, false}, {2, false}, {2, true}}) {
      // Rank-threads share torch's generator, and LBFGS refuses sharding.
      if ((algorithm.selective_backprop && ranks > 1) || (algorithm.lbfgs && sharded)) continue;
      SCOPED_TRACE(std::string(name) + " on " + std::to_string(ranks) + (sharded ? ", sharded" : ""));
      const TempDir whole, stopped;
      const RunResult expected = TrainStopped(algorithm, ranks, sharded, whole.path(), 10);
      ASSERT_TRUE(expected.status.ok()) << expected.status;
      ASSERT_TRUE(TrainStopped(algorithm, ranks, sharded, stopped.path(), 4).status.ok());
      const RunResult resumed = TrainStopped(algorithm, ranks, sharded, stopped.path(), 10);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_LT(resumed.losses.size(), 7u);
      EXPECT_EQ(LargestDifference(resumed, expected), 0);
    }
  }
}

TEST(StepAlgorithms, LbfgsOnRanksIsThatOfOneAndRefusesPieces) {
  const StepAlgorithm algorithm = {.lbfgs = LbfgsOptions{.max_iter = 3}};
  const auto run = [&](bool sharded) {
    TrainerOptions options = StepRun(algorithm);
    options.max_duration = Time::Batches(3);
    if (sharded) options.fsdp.emplace();
    return options;
  };
  const RunResult alone = Train(run(false));
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  EXPECT_LT(LargestDifference(TrainOnRanks(2, [&](int) { return run(false); })[0], alone), 1e-4);
  EXPECT_THAT(std::string(TrainOnRanks(2, [&](int) { return run(true); })[0].status.message()),
              HasSubstr("lbfgs needs all parameters"));
  TrainerOptions with_sam = run(false);
  with_sam.algorithms.push_back(std::make_unique<Sam>(SamOptions{}));
  EXPECT_THAT(std::string(Train(std::move(with_sam)).status.message()),
              HasSubstr("sam does not go with the optimizer LBFGS"));
}

TEST(StepAlgorithms, AStepThatIsNotFiniteIsSkippedWithTheWeightsAsTheyWere) {
  for (const StepAlgorithm& algorithm :
       {StepAlgorithm{.sam = SamOptions{}}, StepAlgorithm{.lbfgs = LbfgsOptions{.max_iter = 3}}}) {
    for (const int bad_evaluation : {1, 2}) {
      TrainerOptions options = StepRun(algorithm);
      options.on_nan = OnNan::kSkip;
      options.max_duration = Time::Batches(4);
      int evaluations = 0;
      AddAlgorithm(options, {Event::kBeforeBackward}, [&, bad_evaluation](State& state) {
        if (state.timestamp.batch == 2 && ++evaluations == bad_evaluation)
          state.loss = state.loss * std::numeric_limits<double>::quiet_NaN();
      });
      std::vector<at::Tensor> weights;
      AddCallback(options, {Event::kBatchEnd},
                  [&](State& state) { weights.push_back(state.model->parameters()[0].detach().clone()); });
      const RunResult result = Train(std::move(options));
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_TRUE(weights[2].equal(weights[1])) << "evaluation " << bad_evaluation;
      EXPECT_FALSE(weights[3].equal(weights[2]));
    }
  }
}

TEST(StepAlgorithms, MemoryThatRunsOutInAnyEvaluationMakesTheStepSmaller) {
  for (const int failing : {1, 2}) {
    const auto run = [&](int rank, bool limited) {
      TrainerOptions options = BlockRun({.sam = SamOptions{}}, false);
      options.device_train_microbatch_size = limited ? kAutoMicrobatch : 0;
      auto evaluations = std::make_shared<int>(0);
      AddCallback(options, {Event::kAfterForward}, [=](State& state) {
        if (state.timestamp.batch != 3) return;
        if (rank == 1 && limited && ++*evaluations == failing)
          TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory (injected)");
      });
      return options;
    };
    const std::vector<RunResult> results = TrainOnRanks(2, [&](int rank) { return run(rank, true); });
    const RunResult expected = TrainOnRanks(2, [&](int rank) { return run(rank, false); })[0];
    for (const RunResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_LE(RelativeError(result, expected), 2e-5) << failing;
    }
  }
}

RunResult TrainMixed(const MixUpOptions& mixup, int64_t microbatch, const std::string& folder, int64_t batches) {
  TrainerOptions options = StepRun({.label_smoothing = 0.1});
  options.algorithms.insert(options.algorithms.begin(), std::make_unique<MixUp>(mixup));
  options.device_train_microbatch_size = microbatch;
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  return Train(std::move(options));
}

TEST(MixUp, DoesNotDependOnMicrobatchesAndIsDrawnAgainAfterAResume) {
  const TempDir whole, stopped, cut;
  const RunResult expected = TrainMixed({.alpha = 0.4}, 0, whole.path(), 10);
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  EXPECT_LT(LargestDifference(TrainMixed({.alpha = 0.4}, 3, cut.path(), 10), expected), 2e-6);
  ASSERT_TRUE(TrainMixed({.alpha = 0.4}, 0, stopped.path(), 4).status.ok());
  EXPECT_EQ(LargestDifference(TrainMixed({.alpha = 0.4}, 0, stopped.path(), 10), expected), 0);
  const TempDir plain;
  EXPECT_GT(LargestDifference(TrainMixed({.alpha = 0}, 0, plain.path(), 10), expected), 1e-3);
}

// The loss of a classifier is linear in its targets.
TEST(MixUp, MixedLossesAreThoseOfMixedTargets) {
  const auto run = [](bool interpolate) {
    TrainerOptions options = StepRun({});
    options.algorithms.push_back(std::make_unique<MixUp>(MixUpOptions{.alpha = 0.4, .interpolate_loss = interpolate}));
    return Train(std::move(options));
  };
  const RunResult targets = run(false), losses = run(true);
  ASSERT_TRUE(losses.status.ok()) << losses.status;
  EXPECT_LT(LargestDifference(losses, targets), 5e-6);
  for (size_t i = 0; i < losses.losses.size(); ++i) EXPECT_NEAR(losses.losses[i], targets.losses[i], 1e-6);
}

TEST(LayerFreezing, FreezesOnEveryMeshAndResumes) {
  const auto run = [](int ranks, bool sharded, const std::string& folder, int64_t epochs) {
    return TrainOnRanks(ranks, [&](int) {
      TrainerOptions options = OptionsOf(Case{});
      options.algorithms.push_back(std::make_unique<LayerFreezing>(LayerFreezingOptions{.freeze_start = 0.2}));
      if (sharded) options.fsdp.emplace();
      options.max_duration = Time::Epochs(4);
      if (epochs < 4) {
        AddCallback(options, {Event::kEpochEnd}, [epochs](State& state) {
          if (state.timestamp.epoch >= epochs) state.StopTraining();
        });
      }
      options.save.save_folder = folder;
      options.save.save_interval = Time::Epochs(1);
      return options;
    })[0];
  };
  const TempDir alone_folder;
  const RunResult alone = run(1, false, alone_folder.path(), 4);
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  EXPECT_GT(RelativeError(alone, Train([] {
                            TrainerOptions options = OptionsOf(Case{});
                            options.max_duration = Time::Epochs(4);
                            return options;
                          }())),
            1e-3);
  for (const auto& [ranks, sharded] : {std::pair{2, false}, {2, true}}) {
    const TempDir whole, stopped;
    const RunResult expected = run(ranks, sharded, whole.path(), 4);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    EXPECT_LE(RelativeError(expected, alone), 1e-5) << sharded;
    ASSERT_TRUE(run(ranks, sharded, stopped.path(), 2).status.ok());
    const RunResult resumed = run(ranks, sharded, stopped.path(), 4);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(LargestDifference(resumed, expected), 0) << sharded;
  }
}

TEST(SelectiveBackprop, PrunesInItsPartOfTheRunAndClocksCountAll) {
  TrainerOptions options =
      StepRun({.selective_backprop = SelectiveBackpropOptions{.start = 0.2, .end = 0.8, .keep = 0.4}});
  std::vector<int64_t> trained;
  AddCallback(options, {Event::kAfterTrainBatch}, [&](State& state) { trained.push_back(state.batch.num_samples); });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(trained, (std::vector<int64_t>{8, 8, 8, 8, 8, 3, 8, 3, 8, 3}))
      << "8 * 0.4 in the second epoch, every second batch is whole";
  EXPECT_EQ(result.timestamp.sample, 80);
}

TEST(SelectiveBackprop, HardSamplesAreDrawnMoreOften) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  std::vector<double> losses;
  for (int i = 0; i < 10; ++i) losses.push_back((i * 7) % 10);
  std::vector<int> counts(10);
  for (int round = 0; round < 2000; ++round) {
    const auto uniform = [](int64_t count) {
      const at::Tensor draws = torch::rand({count}, torch::dtype(at::kDouble));
      return std::vector<double>(draws.data_ptr<double>(), draws.data_ptr<double>() + count);
    };
    for (const int64_t i : SelectByLoss(losses, 0.3, uniform))
      ++counts[static_cast<size_t>(losses[static_cast<size_t>(i)])];
  }
  for (size_t rank = 3; rank < 10; ++rank) EXPECT_GT(counts[rank], counts[rank - 2]) << rank;
}

TEST(SelectiveBackprop, OptionsAreChecked) {
  EXPECT_TRUE(Validate(SelectiveBackpropOptions{}).ok());
  EXPECT_THAT(std::string(Validate(SelectiveBackpropOptions{.keep = 0}).message()), HasSubstr("keep: 0"));
  EXPECT_THAT(std::string(Validate(SelectiveBackpropOptions{.start = 0.9, .end = 0.5}).message()),
              HasSubstr("end: 0.5"));
  EXPECT_THAT(std::string(Validate(LbfgsOptions{.history_size = 0}).message()), HasSubstr("history_size is 0"));
}

}  // namespace
}  // namespace composer
