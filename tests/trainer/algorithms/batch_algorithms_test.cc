// Tests CutMix, CutOut, ColOut, ProgressiveResizing and SeqLengthWarmup in runs: resumed, in microbatches, on ranks,
// and with batches that they cannot change. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/loop/step_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/augment/colout.h"
#include "trainer/algorithms/augment/cutmix.h"
#include "trainer/algorithms/augment/cutout.h"
#include "trainer/algorithms/schedule/progressive_resizing.h"
#include "trainer/algorithms/schedule/seq_length_warmup.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct BatchRow {
  const char* name;
  std::function<std::unique_ptr<Algorithm>()> make;
  bool draws = true;
};

template <typename T, typename Options>
std::function<std::unique_ptr<Algorithm>()> Makes(Options options) {
  return [options] { return std::make_unique<T>(options); };
}

std::vector<BatchRow> ImageAlgorithms() {
  return {
      {"cutmix", Makes<CutMix>(CutMixOptions{})},
      {"cutmix of losses", Makes<CutMix>(CutMixOptions{.interpolate_loss = true})},
      {"cutout", Makes<CutOut>(CutOutOptions{.num_holes = 2})},
      {"colout", Makes<ColOut>(ColOutOptions{})},
      {"colout of samples", Makes<ColOut>(ColOutOptions{.p_row = 0.4, .batch = false})},
      {"crop", Makes<ProgressiveResizing>(ProgressiveResizingOptions{.crop = true, .delay_fraction = 0.2})},
      {"resize", Makes<ProgressiveResizing>(ProgressiveResizingOptions{.delay_fraction = 0.2, .size_increment = 2}),
       false},
  };
}

struct BatchMesh {
  int ranks = 1;
  bool sharded = false;
  int64_t microbatch = 0;
};

RunResult TrainImages(const std::function<std::unique_ptr<Algorithm>()>& make, const BatchMesh& mesh,
                      const std::string& folder, int64_t batches) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = ImageRun(folder, 10);
    options.make_model = [] { return std::make_shared<SurgeryNet>(); };
    const at::Tensor inputs = DrawTensor(3, {24, 2, 8, 8});
    options.train.dataset = MakeTensorRows(inputs, inputs.mean({2, 3}).argmax(1));
    options.device_train_microbatch_size = mesh.microbatch;
    if (mesh.sharded) options.fsdp.emplace();
    if (make) options.algorithms.push_back(make());
    if (batches < 10) {
      AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
        if (state.timestamp.batch >= batches) state.StopTraining();
      });
    }
    return options;
  })[0];
}

TEST(BatchAlgorithms, ResumedRunsEndAsThoseThatWereNotStopped) {
  const RunResult plain = TrainImages({}, {}, "", 10);
  for (const auto& [name, make, draws] : ImageAlgorithms()) {
    for (const BatchMesh& mesh : {BatchMesh{}, {.ranks = 2}, {.ranks = 2, .sharded = true}}) {
      if (draws && mesh.ranks > 1)
        continue;  // rank-threads share torch's generator; batch_algorithms_test.py has ranks
      SCOPED_TRACE(std::string(name) + " on " + std::to_string(mesh.ranks) + (mesh.sharded ? ", sharded" : ""));
      const TempDir whole, stopped;
      const RunResult expected = TrainImages(make, mesh, whole.path(), 10);
      ASSERT_TRUE(expected.status.ok()) << expected.status;
      EXPECT_GT(LargestDifference(expected, plain), 1e-3) << "it has an effect";
      ASSERT_TRUE(TrainImages(make, mesh, stopped.path(), 4).status.ok());
      const RunResult resumed = TrainImages(make, mesh, stopped.path(), 10);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_LT(resumed.losses.size(), 7u);
      EXPECT_EQ(LargestDifference(resumed, expected), 0);
    }
  }
}

TEST(BatchAlgorithms, DoNotDependOnTheSizeOfMicrobatches) {
  for (const auto& [name, make, draws] : ImageAlgorithms()) {
    SCOPED_TRACE(name);
    const RunResult whole = TrainImages(make, {}, "", 10);
    EXPECT_LT(LargestDifference(TrainImages(make, {.microbatch = 3}, "", 10), whole), 1e-5);
  }
}

// The loss of a classifier is linear in its targets.
TEST(CutMix, MixedLossesAreThoseOfMixedTargets) {
  const RunResult targets = TrainImages(Makes<CutMix>(CutMixOptions{}), {}, "", 10);
  const RunResult losses = TrainImages(Makes<CutMix>(CutMixOptions{.interpolate_loss = true}), {}, "", 10);
  for (size_t i = 0; i < losses.losses.size(); ++i) EXPECT_NEAR(losses.losses[i], targets.losses[i], 1e-6);
}

TEST(CutMix, PastesTheSameBoxIntoTargetsThatAreImages) {
  State state;
  state.batch.inputs = DrawTensor(1, {4, 1, 6, 6});
  state.batch.targets = state.batch.inputs.squeeze(1).mul(8).to(at::kLong);
  state.batch.num_samples = 4;
  const Batch before = state.batch;
  CutMix cutmix(CutMixOptions{});
  Logger logger;
  torch::manual_seed(5);
  ASSERT_TRUE(cutmix.Apply(Event::kBatchStart, state, logger).ok());
  EXPECT_FALSE(state.batch.targets.equal(before.targets));
  EXPECT_TRUE(state.batch.targets.equal(state.batch.inputs.squeeze(1).mul(8).to(at::kLong)));
  CutMix of_losses(CutMixOptions{.interpolate_loss = true});
  EXPECT_THROW(of_losses.Apply(Event::kBatchStart, state, logger).IgnoreError(), c10::ValueError);
}

TEST(ColOut, AnImageLosesTheSameInAnyBatchButNotInEveryEpoch) {
  ColOut colout(ColOutOptions{.p_row = 0.5, .batch = false});
  Logger logger;
  const at::Tensor images = DrawTensor(1, {8, 1, 6, 6});
  const auto kept = [&](const std::vector<int64_t>& ids, int64_t epoch) {
    State state;
    state.identity.seed = 3;
    state.timestamp.epoch = epoch;
    state.batch.inputs = images.index_select(0, torch::tensor(ids));
    state.batch.sample_ids = ids;
    state.batch.num_samples = static_cast<int64_t>(ids.size());
    EXPECT_TRUE(colout.Apply(Event::kAfterDataloader, state, logger).ok());
    return state.batch.inputs;
  };
  EXPECT_TRUE(kept({2, 5, 7}, 0)[1].equal(kept({5, 0}, 0)[0]));
  EXPECT_FALSE(kept({5}, 0).equal(kept({5}, 1)));
}

TrainerOptions SequenceRun(const SeqLengthWarmupOptions& warmup, const std::string& folder) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [] { return MakeGpt(SmallGpt(true)); };
  options.make_optimizer = MakeGptAdamW;
  options.train.dataset = Sentences(21);
  options.train.global_train_batch_size = 6;
  options.max_duration = Time::Batches(10);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  options.algorithms.push_back(std::make_unique<SeqLengthWarmup>(warmup));
  return options;
}

TEST(SeqLengthWarmup, TrainsOnLongerAndLongerSequencesOnEveryMesh) {
  for (const bool truncate : {true, false}) {
    const SeqLengthWarmupOptions warmup = {
        .duration = 0.6, .min_seq_length = 2, .max_seq_length = 8, .step_size = 2, .truncate = truncate};
    const auto run = [&](int ranks, bool sharded, const std::string& folder, int64_t batches,
                         std::vector<at::Tensor>* seen = nullptr) {
      return TrainOnRanks(ranks, [&](int rank) {
        TrainerOptions options = SequenceRun(warmup, folder);
        if (sharded) options.fsdp.emplace();
        AddCallback(options, {Event::kAfterTrainBatch}, [=](State& state) {
          if (seen != nullptr && rank == 0) seen->push_back(state.batch.inputs);
        });
        AddCallback(options, {Event::kBatchEnd}, [=](State& state) {
          if (state.timestamp.batch >= batches) state.StopTraining();
        });
        return options;
      })[0];
    };
    std::vector<at::Tensor> seen;
    const RunResult alone = run(1, false, "", 10, &seen);
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_EQ(alone.timestamp.token, alone.timestamp.sample * 8) << "clocks count what was loaded";
    ASSERT_GE(seen.size(), 8u);
    for (const auto& [batch, length] : {std::pair{0, 2}, {1, 2}, {2, 4}, {4, 6}, {6, 8}}) {
      EXPECT_EQ(seen[static_cast<size_t>(batch)].size(1), length) << batch;
      EXPECT_EQ(seen[static_cast<size_t>(batch)].size(0), truncate ? 6 : 6 * 8 / length) << batch;
    }
    for (const auto& [ranks, sharded] : {std::pair{1, false}, {2, false}, {2, true}}) {
      SCOPED_TRACE(std::to_string(ranks) + (sharded ? ", sharded" : ""));
      const TempDir whole, stopped;
      const RunResult expected = run(ranks, sharded, whole.path(), 10);
      ASSERT_TRUE(expected.status.ok()) << expected.status;
      // Each rank cuts its own share into rows, so rows that do not come out even are others.
      if (truncate) EXPECT_LT(LargestDifference(expected, alone), 2e-5);
      ASSERT_TRUE(run(ranks, sharded, stopped.path(), 3).status.ok());
      EXPECT_EQ(LargestDifference(run(ranks, sharded, stopped.path(), 10), expected), 0);
    }
  }
}

TEST(BatchAlgorithms, WhatCannotBeChangedIsNamed) {
  const auto message = [](std::unique_ptr<Algorithm> algorithm) {
    TrainerOptions options = SmallRun();  // rows of features
    options.algorithms.push_back(std::move(algorithm));
    return std::string(Train(std::move(options)).status.message());
  };
  EXPECT_THAT(message(std::make_unique<CutMix>()), HasSubstr("cutmix: it mixes images"));
  EXPECT_THAT(message(std::make_unique<CutOut>()), HasSubstr("cutout: it takes images"));
  EXPECT_THAT(message(std::make_unique<ColOut>()), HasSubstr("colout: it takes images"));
  EXPECT_THAT(message(std::make_unique<ProgressiveResizing>()), HasSubstr("progressive_resizing: it takes images"));
  EXPECT_THAT(message(std::make_unique<SeqLengthWarmup>(SeqLengthWarmupOptions{.min_seq_length = 2})),
              HasSubstr("`targets` has shape"));
  TrainerOptions options = SequenceRun({}, "");
  options.max_duration = Time::Samples(60);
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("max_duration: 60sp, it must be in batches (ba) or epochs (ep)"));
  EXPECT_THAT(std::string(Validate(ColOutOptions{.p_row = 1}).message()), HasSubstr("p_row: 1"));
  EXPECT_THAT(std::string(Validate(ColOutOptions{.batch = false, .resize_target = true}).message()),
              HasSubstr("resize_target: true"));
  EXPECT_THAT(std::string(Validate(ProgressiveResizingOptions{.delay_fraction = 0.9}).message()),
              HasSubstr("delay_fraction: 0.9"));
  EXPECT_THAT(std::string(Validate(SeqLengthWarmupOptions{.min_seq_length = 9, .max_seq_length = 8}).message()),
              HasSubstr("max_seq_length: 8"));
}

}  // namespace
}  // namespace composer
