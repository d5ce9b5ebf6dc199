// Tests device_train_microbatch_size: auto, with memory that runs out on request.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/core/torch_status.h"
#include "trainer/loggers/in_memory.h"

namespace composer {
namespace {

using testing::HasSubstr;

TrainerOptions Automatic(const ModelShape& shape = {}) {
  TrainerOptions options = SmallRun(shape);
  options.train.dataset = MakeRows(72);  // 16, 16, 16, 16, 8
  options.train.global_train_batch_size = 16;
  options.device_train_microbatch_size = kAutoMicrobatch;
  return options;
}

// Simulates a machine on which microbatches of more than `limit` samples do not fit; memory runs out at `where`.
void LimitMemory(TrainerOptions& options, int64_t limit, Event where, int* failures = nullptr) {
  AddCallback(options, {where}, [=](State& state) {
    if (state.batch.num_samples <= limit) return;
    if (failures != nullptr) ++*failures;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory (injected)");
  });
}

// Doubles a batch's inputs, once for each time that it is tried.
class DoublesInputs final : public Algorithm {
 public:
  std::string name() const override { return "DoublesInputs"; }
  bool Match(Event event, const State&) const override { return event == Event::kBeforeTrainBatch; }
  absl::Status Apply(Event, State& state, Logger&) override {
    state.batch.inputs = state.batch.inputs * 2;
    return absl::OkStatus();
  }
};

TrainerOptions WithEvaluation(int64_t microbatch) {
  TrainerOptions options = SmallRun();
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(23, 8, 4, 0, 5);
  evaluator.batch_size = 12;
  evaluator.device_eval_microbatch_size = microbatch;
  options.evaluators.push_back(evaluator);
  return options;
}

// An evaluation finds its own size, counts every sample once, and keeps the size for the next one.
TEST(AutoMicrobatch, EvaluationsHalveUntilTheyFit) {
  for (const int ranks : {1, 2}) {
    std::vector<int64_t> passes;
    const auto whole = TrainOnRanks(ranks, [](int) { return WithEvaluation(0); });
    const auto found = TrainOnRanks(ranks, [&](int rank) {
      TrainerOptions options = WithEvaluation(kAutoMicrobatch);
      if (rank > 0) return options;  // only rank 0 has little memory
      AddCallback(options, {Event::kEvalBeforeForward}, [&](State& state) {
        passes.push_back(state.batch.num_samples);
        TORCH_CHECK_WITH(OutOfMemoryError, state.batch.num_samples <= 4, "CUDA out of memory (injected)");
      });
      return options;
    });
    ASSERT_TRUE(found[0].status.ok()) << found[0].status;
    ASSERT_FALSE(whole[0].eval_results.empty());
    ASSERT_EQ(found[0].eval_results.size(), whole[0].eval_results.size());
    for (size_t i = 0; i < whole[0].eval_results.size(); ++i)
      EXPECT_NEAR(found[0].eval_results[i].second, whole[0].eval_results[i].second, 1e-6);
    ASSERT_GE(passes.size(), 6u);
    const int64_t share = passes[0];  // rank 0's of the first batch
    EXPECT_EQ(std::count(passes.begin(), passes.end(), share), 1) << "the second evaluation knows the size";
    passes.resize(6);
    EXPECT_THAT(passes, testing::ElementsAre(share, share / 2, share / 4, share / 4, share / 4, share / 4)) << ranks;
  }
}

TEST(AutoMicrobatch, AnEvaluationOfOneSampleMustFitAndShardedModelsRefuseIt) {
  TrainerOptions options = WithEvaluation(kAutoMicrobatch);
  LimitMemory(options, 0, Event::kEvalBeforeForward);
  EXPECT_EQ(Train(std::move(options)).status.code(), absl::StatusCode::kResourceExhausted);
  TrainerOptions sharded = WithEvaluation(kAutoMicrobatch);
  sharded.fsdp = FsdpOptions();
  EXPECT_THAT(std::string(Trainer::Create(std::move(sharded)).status().message()), HasSubstr("sharded or split model"));
}

TEST(AutoMicrobatch, ItsSizeIsAMetric) {
  TrainerOptions options = Automatic();
  MetricHistory history;
  options.loggers.push_back(std::make_unique<InMemoryLogger>(&history));
  LimitMemory(options, 4, Event::kBeforeForward);
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(history.Values("trainer/device_train_microbatch_size").at(0), 4);
}

class WhereTest : public testing::TestWithParam<Event> {};

TEST_P(WhereTest, OneRankFindsASizeAndTheResultIsTheSame) {
  const RunResult exact = Train(SmallRun());
  TrainerOptions plain = Automatic({.batch_norm = false});
  plain.device_train_microbatch_size = 0;
  const RunResult whole = Train(std::move(plain));
  TrainerOptions options = Automatic();
  int failures = 0;
  int64_t size = 0;
  LimitMemory(options, 5, GetParam(), &failures);
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) { size = state.settings.device_train_microbatch_size; });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(size, 4);
  EXPECT_EQ(failures, 2) << "16, 8";
  EXPECT_EQ(result.losses.size(), whole.losses.size());
  EXPECT_LT(LargestDifference(result, whole), 2e-5);
}

TEST_P(WhereTest, OneOfThreeRanksRunsOutAndNobodyHangs) {
  const auto options = [&](int rank) {
    TrainerOptions own = Automatic();
    if (rank == 1) LimitMemory(own, 2, GetParam());
    return own;
  };
  const std::vector<RunResult> results = TrainOnRanks(3, options);
  const RunResult alone = Train([] {
    TrainerOptions plain = Automatic();
    plain.device_train_microbatch_size = 0;
    return plain;
  }());
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(LargestDifference(result, results[0]), 0);
    EXPECT_LT(LargestDifference(result, alone), 2e-5);
    EXPECT_EQ(result.losses.size(), 10u) << "a step that was discarded is not a step";
  }
}

INSTANTIATE_TEST_SUITE_P(Places, WhereTest,
                         testing::Values(Event::kBeforeForward, Event::kAfterForward, Event::kBeforeBackward));

// An algorithm that works on the whole batch runs out once; the batch is tried again as the loader gave it.
TEST(AutoMicrobatch, OutOfMemoryBeforeTheBatch) {
  const auto options = [](int rank, bool fails) {
    TrainerOptions own = Automatic();
    own.algorithms.push_back(std::make_unique<DoublesInputs>());
    auto left = std::make_shared<int>(fails && rank == 1 ? 1 : 0);
    AddCallback(own, {Event::kBeforeTrainBatch}, [left](State&) {
      TORCH_CHECK_WITH(OutOfMemoryError, (*left)-- <= 0, "CUDA out of memory (injected)");
    });
    return own;
  };
  const auto failed = TrainOnRanks(3, [&](int rank) { return options(rank, true); });
  const auto whole = TrainOnRanks(3, [&](int rank) { return options(rank, false); });
  for (size_t rank = 0; rank < failed.size(); ++rank) {
    ASSERT_TRUE(failed[rank].status.ok()) << failed[rank].status;
    EXPECT_EQ(failed[rank].losses.size(), whole[rank].losses.size());
    EXPECT_LT(LargestDifference(failed[rank], whole[rank]), 2e-5);
  }
}

TEST(AutoMicrobatch, AFitMayBeginAndEndIt) {
  TrainerOptions options = Automatic();
  options.device_train_microbatch_size = 0;
  LimitMemory(options, 5, Event::kBeforeForward);
  options.max_duration = Time();
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_THAT(std::string((*trainer)->Fit({.duration = Time::Epochs(1)}).message()), HasSubstr("out of memory"));
  ASSERT_TRUE((*trainer)->Fit({.duration = Time::Epochs(1), .device_train_microbatch_size = kAutoMicrobatch}).ok());
  EXPECT_EQ((*trainer)->state().settings.device_train_microbatch_size, 4);
  ASSERT_TRUE((*trainer)->Fit({.duration = Time::Epochs(1), .device_train_microbatch_size = 3}).ok());
  EXPECT_FALSE((*trainer)->state().settings.auto_microbatch.has_value());
  EXPECT_THAT(std::string((*trainer)->Fit({.duration = Time::Epochs(1), .device_train_microbatch_size = -7}).message()),
              HasSubstr("device_train_microbatch_size: -7 is not a number of samples"));
}

// Memory runs out in the middle of backward, after buckets are on their way: a hook on a parameter throws.
TEST(AutoMicrobatch, OutOfMemoryInsideBackward) {
  const auto options = [](int rank) {
    TrainerOptions own = Automatic({.hidden = 64});
    if (rank == 0) {
      auto left = std::make_shared<int>(2);
      const at::Tensor first = own.model->parameters()[0];
      first.register_hook([left](at::Tensor grad) {
        if (*left > 0) {
          --*left;
          TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory (injected)");
        }
        return grad;
      });
    }
    return own;
  };
  const std::vector<RunResult> results = TrainOnRanks(2, options);
  ASSERT_TRUE(results[0].status.ok()) << results[0].status;
  ASSERT_TRUE(results[1].status.ok()) << results[1].status;
  EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
  EXPECT_EQ(results[0].losses.size(), 10u);
}

TEST(AutoMicrobatch, ADiscardedStepLeavesNoTraceInBatchNorm) {
  const auto run = [](bool fails) {
    TrainerOptions options = Automatic({.batch_norm = true});
    auto left = std::make_shared<int>(fails ? 1 : 0);
    AddCallback(options, {Event::kAfterForward}, [left](State& state) {
      if (state.timestamp.batch == 3 && --*left == 0) TORCH_CHECK_WITH(OutOfMemoryError, false, "injected");
    });
    // Sets the size before the failing step, whatever the policy chooses, so that both runs compute the same.
    AddCallback(options, {Event::kBeforeTrainBatch},
                [](State& state) { state.settings.device_train_microbatch_size = 16; });
    return Train(std::move(options));
  };
  const RunResult with = run(true), without = run(false);
  ASSERT_TRUE(with.status.ok()) << with.status;
  EXPECT_EQ(LargestDifference(with, without), 0);
}

TEST(AutoMicrobatch, IsRememberedByTheCheckpoint) {
  const TempDir folder;
  const auto run = [&](int batches, int* failures) {
    TrainerOptions options = Automatic();
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder.path();
    LimitMemory(options, 5, Event::kBeforeForward, failures);
    return Train(std::move(options));
  };
  int first = 0, second = 0;
  ASSERT_TRUE(run(3, &first).status.ok());
  ASSERT_TRUE(run(6, &second).status.ok());
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 0);
}

TEST(AutoMicrobatch, OneSampleThatDoesNotFitEndsTheRunOnAllRanks) {
  const std::vector<RunResult> results = TrainOnRanks(2, [](int rank) {
    TrainerOptions own = Automatic();
    if (rank == 1) LimitMemory(own, 0, Event::kAfterForward);
    return own;
  });
  for (const RunResult& result : results) {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("one sample is too much already"));
  }
}

TEST(AutoMicrobatch, WithoutItOutOfMemoryIsAnError) {
  TrainerOptions options = Automatic();
  options.device_train_microbatch_size = 8;
  LimitMemory(options, 5, Event::kBeforeForward);
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower device_train_microbatch_size first: 8 -> 4, or auto"));
}

TEST(AutoMicrobatch, AFullDiskIsNotTakenForMemory) {
  class FullDisk final : public Callback {
   public:
    std::string name() const override { return "FullDisk"; }
    EventSet events() const override { return {Event::kAfterForward}; }
    absl::Status Run(Event, State&, Logger&) override {
      return absl::ResourceExhaustedError("No space left on device");
    }
  };
  TrainerOptions options = Automatic();
  options.callbacks.push_back(std::make_unique<FullDisk>());
  const absl::Status status = Train(std::move(options)).status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
  EXPECT_FALSE(IsOutOfMemory(status));
}

}  // namespace
}  // namespace composer
