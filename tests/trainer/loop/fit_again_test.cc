// Tests what a program does with a Trainer besides one Fit: train longer, from other weights, predict, save.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Trainer> Make(TrainerOptions options) {
  auto trainer = Trainer::Create(std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

double Distance(Model& a, Model& b) {
  double largest = 0;
  const auto left = a.parameters(), right = b.parameters();
  for (size_t i = 0; i < left.size(); ++i) largest = std::max(largest, (left[i] - right[i]).abs().max().item<double>());
  return largest;
}

TEST(FitAgain, ADurationGoesOnFromWhereTheRunIs) {
  const auto once = Make(SmallRun());
  ASSERT_TRUE(once->Fit().ok());
  TrainerOptions options = SmallRun();
  options.max_duration = Time::Batches(3);
  const auto twice = Make(std::move(options));
  ASSERT_TRUE(twice->Fit().ok());
  ASSERT_TRUE(twice->Fit({.duration = Time::Batches(7)}).ok());
  EXPECT_EQ(twice->state().timestamp.batch, 10);
  EXPECT_EQ(twice->state().timestamp.epoch, 2);
  EXPECT_EQ(Distance(*once->state().model, *twice->state().model), 0) << "3 + 7 batches in two calls are 10 in one";
}

TEST(FitAgain, ResetTimeBeginsAnew) {
  const auto trainer = Make(SmallRun());
  ASSERT_TRUE(trainer->Fit().ok());
  ASSERT_TRUE(trainer->Fit({.duration = Time::Epochs(1), .reset_time = true}).ok());
  EXPECT_EQ(trainer->state().timestamp.batch, 5);
}

TEST(FitAgain, WhatIsRefusedChangesNothing) {
  const auto trainer = Make(SmallRun());
  ASSERT_TRUE(trainer->Fit().ok());
  const auto refused = [&](FitOptions options) {
    EXPECT_EQ(trainer->Fit(std::move(options)).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(trainer->state().timestamp.batch, 10);
    EXPECT_EQ(trainer->state().max_duration, Time::Epochs(2));
    EXPECT_EQ(trainer->state().settings.precision, Precision::kFp32);
  };
  refused({.duration = Time::Batches(0), .reset_time = true});
  refused({.duration = Time::Epochs(1), .device_train_microbatch_size = -3, .precision = Precision::kAmpBf16});
  refused({.reset_time = true, .device_train_microbatch_size = -3});
}

TEST(FitAgain, ACompleteRunNeedsToBeToldHowLong) {
  const auto trainer = Make(SmallRun());
  ASSERT_TRUE(trainer->Fit().ok());
  const absl::Status again = trainer->Fit();
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.message()), HasSubstr("max_duration: 2ep is reached already"));
  EXPECT_EQ(trainer->Fit({.duration = Time::Batches(0)}).code(), absl::StatusCode::kInvalidArgument);
  TrainerOptions open = SmallRun();
  open.max_duration = Time();
  EXPECT_THAT(std::string(Make(std::move(open))->Fit().message()), HasSubstr("max_duration: required"));
}

TEST(FitAgain, PredictGivesTheOutputsInOrder) {
  const auto trainer = Make(SmallRun({.dropout = 0.5}));
  ASSERT_TRUE(trainer->Fit().ok());
  const auto data = MakeRows(23);
  const auto outputs = trainer->Predict({.dataset = data, .batch_size = 10});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_EQ((*outputs)[2]->size(0), 3);
  std::vector<int64_t> ids(23);
  for (int64_t i = 0; i < 23; ++i) ids[static_cast<size_t>(i)] = i;
  trainer->state().model->eval();
  const torch::NoGradGuard no_grad;
  const at::Tensor expected = trainer->state().model->forward(data->Load(ids));
  EXPECT_TRUE(torch::allclose(Outputs::Cat(*outputs).tensor(), expected, 1e-6, 1e-6));
  EXPECT_TRUE(trainer->Predict({.dataset = data, .return_outputs = false})->empty());
  EXPECT_FALSE(trainer->Predict({.dataset = nullptr}).ok());
}

TEST(FitAgain, SaveCheckpointOnDemandAndLoadTheWeightsElsewhere) {
  const TempDir folder;
  const auto first = Make(SmallRun());
  ASSERT_TRUE(first->Fit().ok());
  const auto location = first->SaveCheckpoint(folder.path(), /*weights_only=*/true);
  ASSERT_TRUE(location.ok()) << location.status();
  EXPECT_THAT(Checkpoints(folder.path()), ElementsAre("ep2-ba10"));
  EXPECT_FALSE(first->SaveCheckpoint().ok()) << "no save_folder";
  for (const std::string& path : {*location, folder.path()}) {
    TrainerOptions options = SmallRun();
    FillParameters(*options.model, 0.7F);
    options.load = {.load_path = path, .load_weights_only = true};
    const auto second = Make(std::move(options));
    EXPECT_EQ(Distance(*first->state().model, *second->state().model), 0);
    EXPECT_EQ(second->state().timestamp.batch, 0);
    EXPECT_EQ(second->resumed_from(), "");
  }
}

TEST(FitAgain, LoadPathGoesOnFromAnotherRun) {
  const TempDir folder;
  TrainerOptions options = SmallRun();
  options.max_duration = Time::Batches(4);
  options.save.save_folder = folder.path();
  ASSERT_TRUE(Make(std::move(options))->Fit().ok());
  TrainerOptions other = SmallRun();
  other.seed = 99;  // overridden: the order of samples continues
  other.load.load_path = folder.path();
  const auto trainer = Make(std::move(other));
  EXPECT_EQ(trainer->state().timestamp.batch, 4);
  ASSERT_TRUE(trainer->Fit().ok());
  const auto whole = Make(SmallRun());
  ASSERT_TRUE(whole->Fit().ok());
  EXPECT_EQ(Distance(*whole->state().model, *trainer->state().model), 0);
}

TEST(FitAgain, LoadingSaysWhatDoesNotFitAndPassesOverWhatItIsTold) {
  const TempDir folder;
  const auto first = Make(SmallRun());
  ASSERT_TRUE(first->Fit().ok());
  ASSERT_TRUE(first->SaveCheckpoint(folder.path()).ok());
  const auto load = [&](LoadOptions how, const ModelShape& shape) {
    TrainerOptions options = SmallRun(shape);
    how.load_path = folder.path();
    options.load = std::move(how);
    return Trainer::Create(std::move(options)).status();
  };
  EXPECT_TRUE(load({}, {}).ok());
  const absl::Status larger = load({.load_weights_only = true}, {.hidden = 32});
  EXPECT_EQ(larger.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(larger.message()), HasSubstr("model/first.weight (F32[16,8] there, F32[32,8] here)"));
  EXPECT_TRUE(load({.load_weights_only = true, .load_ignore_keys = {"model/*"}}, {.hidden = 32}).ok());
  EXPECT_TRUE(load({.load_weights_only = true, .load_ignore_keys = {"state/model/*"}}, {.hidden = 32}).ok())
      << "Composer's spelling";
  EXPECT_THAT(std::string(load({.load_weights_only = true}, {.batch_norm = true}).message()),
              HasSubstr("missing in the checkpoint: model/norm.weight"));
  EXPECT_TRUE(load({.load_weights_only = true, .load_strict_model_weights = false}, {.batch_norm = true}).ok());
  TrainerOptions nowhere = SmallRun();
  nowhere.load.load_path = folder.Path("none");
  EXPECT_THAT(std::string(Trainer::Create(std::move(nowhere)).status().message()), HasSubstr("load_path"));
}

TEST(FitAgain, FurtherSaversHaveTheirOwnRhythm) {
  const TempDir folder, weights;
  TrainerOptions options = SmallRun();
  options.save.save_folder = folder.path();
  SaveOptions saver;
  saver.save_folder = weights.path();
  saver.save_interval = Time::Batches(3);
  saver.save_weights_only = true;
  saver.save_num_checkpoints_to_keep = 2;
  options.checkpoint_savers.push_back(saver);
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(Checkpoints(folder.path()), ElementsAre("ep1-ba5", "ep2-ba10"));
  EXPECT_THAT(Checkpoints(weights.path()), ElementsAre("ep1-ba9", "ep2-ba10"));
  for (const auto& [name, tensor] : NewestCheckpoint(weights.path()).tensors) EXPECT_EQ(name.rfind("model/", 0), 0u);
}

TEST(FitAgain, IterationsOfEpochsAndOfTokens) {
  const auto count = [](Time length, int64_t tokens) {
    TrainerOptions options = SmallRun();
    options.train.dataset = MakeRows(40, 8, 4, tokens);
    options.max_duration = Time::Epochs(4);
    options.iteration_length = length;
    std::vector<int> counts(3, 0);
    AddCallback(options, {Event::kIterationStart}, [&](State&) { ++counts[0]; });
    AddCallback(options, {Event::kIterationEnd}, [&](State&) { ++counts[1]; });
    AddCallback(options, {Event::kIterationCheckpoint}, [&](State&) { ++counts[2]; });
    const RunResult result = Train(std::move(options));
    EXPECT_TRUE(result.status.ok()) << result.status;
    counts.push_back(static_cast<int>(result.timestamp.iteration));
    return counts;
  };
  EXPECT_THAT(count(Time(), 0), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(count(Time::Epochs(2), 0), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(count(Time::Epochs(3), 0), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(count(Time::Tokens(400), 10), ElementsAre(4, 4, 4, 4)) << "20 batches of 80 tokens: 1600";
}

}  // namespace
}  // namespace composer
