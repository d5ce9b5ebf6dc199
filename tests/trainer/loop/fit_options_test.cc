// Tests what one call of Fit or Eval may be given, and trainers that are made without data, optimizer or duration.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<Trainer> Made(TrainerOptions options) {
  auto trainer = Trainer::Create(std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

// A trainer without data, optimizer and duration.
TrainerOptions Bare(const ModelShape& shape = {}) {
  TrainerOptions options = SmallRun(shape);
  options.train = {};
  options.make_optimizer = nullptr;
  options.max_duration = Time();
  return options;
}

TrainDataOptions Rows(int64_t size, int64_t batch = 0, uint32_t start = 2) {
  TrainDataOptions train;
  train.dataset = MakeRows(size, 8, 4, 0, start);
  train.global_train_batch_size = batch;
  return train;
}

EvaluatorOptions EvalRows(std::string label = "eval", int64_t size = 23) {
  EvaluatorOptions evaluator;
  evaluator.label = std::move(label);
  evaluator.dataset = MakeRows(size, 8, 4, 0, /*start=*/5);
  evaluator.batch_size = 4;
  return evaluator;
}

std::vector<at::Tensor> Weights(Trainer& trainer) {
  std::vector<at::Tensor> weights;
  for (const at::Tensor& param : trainer.state().model->parameters()) weights.push_back(param.detach().clone());
  return weights;
}

void ExpectSameWeights(Trainer& a, Trainer& b) {
  const auto left = Weights(a), right = Weights(b);
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(right[i])) << i;
}

std::string MessageOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(FitOptions, DataOfTheFirstFitIsAsGoodAsThatOfCreate) {
  const auto usual = Made(SmallRun());
  ASSERT_TRUE(usual->Fit().ok());
  TrainerOptions options = SmallRun();
  options.train = {};
  const auto late = Made(std::move(options));
  EXPECT_EQ(late->state().train_dataloader, nullptr);
  EXPECT_THAT(MessageOf(late->Fit()), HasSubstr("train_dataloader: required, of the trainer or as Fit's train"));
  EXPECT_THAT(MessageOf(late->Fit({.train = Rows(40)})), HasSubstr("global_train_batch_size: required"));
  ASSERT_TRUE(late->Fit({.train = Rows(40, 8)}).ok());
  ExpectSameWeights(*usual, *late);
}

TEST(FitOptions, OtherDataReplacesTheFirst) {
  const auto trainer = Made(SmallRun());
  EXPECT_EQ(trainer->state().train_dataloader->dataset().size(), 40);
  ASSERT_TRUE(trainer->Fit().ok());
  TrainDataOptions other = Rows(24);
  other.label = "finetune";
  ASSERT_TRUE(trainer->Fit({.duration = Time::Epochs(1), .train = other}).ok());
  const State& state = trainer->state();
  EXPECT_EQ(state.timestamp.batch, 10 + 3) << "24 samples in batches of 8, as before";
  EXPECT_EQ(state.train_dataloader->dataset().size(), 24);
  EXPECT_EQ(state.dataloader, state.train_dataloader.get());
  EXPECT_EQ(state.dataloader->label(), "finetune");
  EXPECT_EQ(state.dataloader->batches_per_epoch(), 3);
  ASSERT_TRUE(trainer->Fit({.duration = Time::Epochs(1), .train_subset_num_batches = 2}).ok());
  EXPECT_EQ(state.timestamp.batch, 13 + 2);
  ASSERT_TRUE(trainer->Fit({.duration = Time::Epochs(1), .train_subset_num_batches = -1}).ok());
  EXPECT_EQ(state.timestamp.batch, 15 + 3) << "what a Fit sets stays, so this is still the second data";
}

TEST(FitOptions, OtherDataInTheMiddleOfAnEpochKeepsThePlace) {
  TrainerOptions options = SmallRun();
  options.max_duration = Time::Batches(3);
  const auto trainer = Made(std::move(options));
  ASSERT_TRUE(trainer->Fit().ok());
  ASSERT_TRUE(trainer->Fit({.duration = Time::Batches(1), .train = Rows(40, 4)}).ok());
  EXPECT_EQ(trainer->state().timestamp.batch_in_epoch, 24 / 4 + 1);
  EXPECT_EQ(trainer->state().timestamp.sample_in_epoch, 28);
}

TEST(FitOptions, ARunOfTwoDatasetsResumesWithTheOneOfItsCheckpoint) {
  const TempDir folder;
  const auto options = [&](const std::string& where) {
    TrainerOptions made = SmallRun();
    made.max_duration = Time::Epochs(1);
    made.save.save_folder = where;
    made.save.save_interval = Time::Batches(1);
    return made;
  };
  const auto second_fit = [] { return FitOptions{.duration = Time::Batches(4), .train = Rows(24, 6, /*start=*/9)}; };
  const auto whole = Made(options(folder.Path("whole")));
  ASSERT_TRUE(whole->Fit().ok());
  ASSERT_TRUE(whole->Fit(second_fit()).ok());
  {
    const auto first = Made(options(folder.Path("cut")));
    ASSERT_TRUE(first->Fit().ok());
    FitOptions half = second_fit();
    half.duration = Time::Batches(2);
    ASSERT_TRUE(first->Fit(std::move(half)).ok());
  }
  EXPECT_THAT(MessageOf(Trainer::Create(options(folder.Path("cut"))).status()),
              HasSubstr("trained with 6; keep that value"));
  TrainerOptions bare = options(folder.Path("cut"));
  bare.train = {};
  const auto resumed = Made(std::move(bare));
  EXPECT_EQ(resumed->state().timestamp.batch, 7);
  EXPECT_THAT(MessageOf(resumed->Fit({.duration = Time::Batches(2), .train = Rows(40)})),
              HasSubstr("train_dataloader: the dataset has 40 samples, but checkpoint"));
  FitOptions rest = second_fit();
  rest.duration = Time::Batches(2);
  ASSERT_TRUE(resumed->Fit(std::move(rest)).ok());
  EXPECT_EQ(resumed->state().timestamp.batch, 9);
  ExpectSameWeights(*whole, *resumed);
}

// Returns the learning rate of each batch of a Fit of a run whose optimizer has the rate 1.
std::vector<double> RatesOf(FitOptions fit) {
  std::vector<double> rates;
  TrainerOptions options = SmallRun();
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1.0); };
  AddCallback(options, {Event::kBatchEnd},
              [&rates](State& state) { rates.push_back(state.optimizer->groups()[0].lr); });
  const auto trainer = Made(std::move(options));
  EXPECT_TRUE(trainer->Fit(std::move(fit)).ok());
  return rates;
}

FitOptions LinearFit(Time t_max) {
  FitOptions fit{.duration = Time::Batches(8)};
  fit.schedulers.emplace();
  fit.schedulers->push_back(LinearSchedule({.t_max = t_max}));
  return fit;
}

TEST(FitOptions, OtherDataAndEvaluatorsOnTwoShardedRanks) {
  const auto run = [](int ranks) {
    std::vector<std::vector<double>> results(static_cast<size_t>(ranks));
    ThreadsExchange exchange(ranks);
    const auto store = c10::make_intrusive<c10d::HashStore>();
    SpawnRanks(ranks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      TrainerOptions options = Bare();
      if (ranks > 1) options.fsdp.emplace();
      options.communicator = &communicator;
      options.store = store;
      const auto trainer = Made(std::move(options));
      ASSERT_TRUE(trainer->Fit({.duration = Time::Batches(3), .train = Rows(40, 8)}).ok());
      // The last batch has one sample, so that a rank has none.
      ASSERT_TRUE(trainer->Fit({.duration = Time::Epochs(1), .train = Rows(25)}).ok());
      EXPECT_EQ(trainer->state().timestamp.sample, 24 + 1) << "what was seen of the epoch counts for the new data";
      ASSERT_TRUE(trainer->Eval({.evaluators = {EvalRows()}}).ok());
      for (const auto& [name, value] : trainer->eval_results()) results[static_cast<size_t>(rank)].push_back(value);
    });
    return results;
  };
  const auto one = run(1), two = run(2);
  ASSERT_EQ(one[0].size(), 2u);
  EXPECT_EQ(two[0], two[1]);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(one[0][i], two[0][i], 1e-5);
}

TEST(FitOptions, SchedulersWithTheirRatioAndStep) {
  EXPECT_THAT(RatesOf(LinearFit(Time::Batches(8))),
              ElementsAre(1, 7. / 8, 6. / 8, 5. / 8, 4. / 8, 3. / 8, 2. / 8, 1. / 8));
  FitOptions scaled = LinearFit(Time::Batches(8));
  scaled.scale_schedule_ratio = 0.5;
  EXPECT_THAT(RatesOf(std::move(scaled)), ElementsAre(1, 0.75, 0.5, 0.25)) << "the ratio scales the run, too";
  FitOptions by_epoch = LinearFit(Time::Batches(10));
  by_epoch.step_schedulers_every_batch = false;
  EXPECT_THAT(RatesOf(std::move(by_epoch)), ElementsAre(1, 1, 1, 1, 1, 0.5, 0.5, 0.5)) << "epochs of 5 batches";
}

TEST(FitOptions, StepSchedulersEveryBatchIsForSchedulesThatHaveTheChoice) {
  class Own final : public Scheduler {
   public:
    std::string name() const override { return "Own"; }
    double Factor(const Timestamp&, const ScheduleContext&) const override { return 1; }
  };
  TrainerOptions options = SmallRun();
  options.schedulers.push_back(std::make_unique<Own>());
  options.step_schedulers_every_batch = true;
  EXPECT_THAT(MessageOf(Trainer::Create(std::move(options)).status()),
              HasSubstr("step_schedulers_every_batch: true is not for the schedule Own"));
}

TEST(FitOptions, EvaluatorsTheirIntervalAndSubset) {
  TrainerOptions options = SmallRun();
  options.evaluators.push_back(EvalRows());
  std::vector<std::string> seen;
  AddCallback(options, {Event::kEvalEnd}, [&seen](State& state) {
    seen.push_back(
        absl::StrCat(state.timestamp.batch, " ", state.dataloader->label(), " ", state.evaluation.timestamp.sample));
  });
  const auto trainer = Made(std::move(options));
  ASSERT_EQ(trainer->state().evaluators.size(), 1u);
  ASSERT_TRUE(trainer->Fit({.duration = Time::Batches(4), .eval_interval = Time::Batches(2)}).ok());
  EXPECT_THAT(seen, ElementsAre("2 eval 23", "4 eval 23"));
  seen.clear();
  ASSERT_TRUE(trainer->Fit({.duration = Time::Batches(2), .eval_subset_num_batches = 1}).ok());
  EXPECT_THAT(seen, ElementsAre("6 eval 4")) << "the interval of the Fit before stays";
  seen.clear();
  EvaluatorOptions other = EvalRows("other", 9);
  other.eval_interval = [](const State& state, Event event) {
    return event == Event::kBatchEnd && state.timestamp.batch % 4 == 3;
  };
  ASSERT_TRUE(trainer->Fit({.duration = Time::Batches(4), .evaluators = std::vector{other}}).ok());
  EXPECT_THAT(seen, ElementsAre("7 other 9")) << "a function decides alone, also about the end";
  EXPECT_EQ(trainer->state().evaluators[0].label, "other");
}

TEST(FitOptions, WhatIsRefusedLeavesEverything) {
  const auto trainer = Made(SmallRun());
  ASSERT_TRUE(trainer->Fit().ok());
  const auto refused = [&](FitOptions options, const char* message) {
    options.duration = Time::Epochs(1);
    EXPECT_THAT(MessageOf(trainer->Fit(std::move(options))), HasSubstr(message));
    const State& state = trainer->state();
    EXPECT_EQ(state.train_dataloader->dataset().size(), 40);
    EXPECT_EQ(state.clock.batches_per_epoch, 5);
    EXPECT_THAT(state.evaluators, IsEmpty());
    EXPECT_EQ(state.max_duration, Time::Epochs(2));
  };
  refused({.train = Rows(0)}, "the dataset is empty");
  refused({.train = TrainDataOptions()}, "train_dataloader: required");
  refused({.train = Rows(24), .evaluators = std::vector{EvalRows("eval", 0)}}, "the dataset is missing or empty");
  refused({.train = Rows(24), .scale_schedule_ratio = 0.5}, "scale_schedule_ratio: Fit takes it with schedulers only");
  refused({.step_schedulers_every_batch = true}, "step_schedulers_every_batch: Fit takes it with schedulers only");
  FitOptions bad = LinearFit(Time::Duration(0));
  bad.train = Rows(24);
  refused(std::move(bad), "schedulers: ");
  FitOptions none = LinearFit(Time::Batches(4));
  none.scale_schedule_ratio = -1;
  refused(std::move(none), "scale_schedule_ratio: -1");
}

TEST(FitOptions, WithoutAnOptimizerItIsComposers) {
  TrainerOptions options = SmallRun(), named = SmallRun();
  options.make_optimizer = nullptr;
  named.make_optimizer = DecoupledSGDW(0.1);
  const auto trainer = Made(std::move(options)), expected = Made(std::move(named));
  EXPECT_EQ(trainer->state().optimizer->name(), "DecoupledSGDW");
  ASSERT_TRUE(trainer->Fit().ok());
  ASSERT_TRUE(expected->Fit().ok());
  ExpectSameWeights(*trainer, *expected);
}

TEST(EvalOptions, ATrainerWithoutTrainingDataEvaluatesAndPredicts) {
  const TempDir folder;
  TrainerOptions options = SmallRun();
  options.save.save_folder = folder.path();
  options.evaluators.push_back(EvalRows());
  const auto trained = Made(std::move(options));
  ASSERT_TRUE(trained->Fit().ok());
  TrainerOptions bare = Bare();
  bare.load = {.load_path = folder.path(), .load_weights_only = true};
  const auto trainer = Made(std::move(bare));
  EXPECT_EQ(trainer->state().identity.load_path, folder.path());
  EXPECT_THAT(MessageOf(trainer->Eval()), HasSubstr("eval_dataloader: required"));
  ASSERT_TRUE(trainer->Eval({.evaluators = {EvalRows()}}).ok());
  EXPECT_EQ(trainer->eval_results(), trained->eval_results());
  EXPECT_THAT(trainer->eval_results(), testing::Not(IsEmpty()));
  EXPECT_EQ(trainer->Predict({.dataset = MakeRows(23), .batch_size = 10})->size(), 3u);
}

TEST(EvalOptions, EvaluatorsOfOneEvalAreForgotten) {
  TrainerOptions options = SmallRun();
  options.evaluators.push_back(EvalRows());
  std::vector<std::string> seen;
  AddCallback(options, {Event::kEvalStandaloneStart, Event::kEvalEnd}, [&seen](State& state) {
    seen.push_back(absl::StrCat(state.evaluators.size(), state.evaluators[0].label, state.evaluation.timestamp.sample));
  });
  const auto trainer = Made(std::move(options));
  ASSERT_TRUE(trainer->Eval({.evaluators = {EvalRows("a", 9), EvalRows("b", 10)}}).ok());
  EXPECT_THAT(seen, ElementsAre("2a0", "2a9", "2a10"));
  EXPECT_EQ(trainer->state().evaluators[0].label, "eval");
  EXPECT_EQ(trainer->state().dataloader, trainer->state().train_dataloader.get());
  seen.clear();
  ASSERT_TRUE(trainer->Eval({.subset_num_batches = 2}).ok());
  ASSERT_TRUE(trainer->Eval().ok());
  EXPECT_THAT(seen, ElementsAre("1eval10", "1eval8", "1eval8", "1eval23"));
  EXPECT_THAT(MessageOf(trainer->Eval({.evaluators = {EvalRows("a", 0)}})), HasSubstr("eval_dataloader a"));
  std::vector<std::string> names;
  for (const auto& [name, value] : trainer->eval_results()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("metrics/eval/MulticlassAccuracy", "metrics/eval/CrossEntropy",
                                 "metrics/eval/MulticlassAccuracy", "metrics/eval/CrossEntropy"))
      << "of all evaluations, then those of the subset";
}

TEST(Functions, ASaveIntervalAndIgnoredKeys) {
  const TempDir folder;
  TrainerOptions options = SmallRun();
  options.save.save_folder = folder.path();
  options.save.save_num_checkpoints_to_keep = 3;
  // True twice for batch 5: at the checkpoint events of the batch and of the epoch.
  options.save.save_interval = [](const State& state, Event) { return state.timestamp.batch % 5 < 2; };
  options.save.save_ignore_keys = [](const std::string& key) { return key.starts_with("optimizer/"); };
  const auto trainer = Made(std::move(options));
  EXPECT_THAT(trainer->saved_checkpoints(), IsEmpty());
  ASSERT_TRUE(trainer->Fit().ok());
  EXPECT_THAT(Checkpoints(folder.path()), ElementsAre("ep0-ba5", "ep1-ba6", "ep1-ba10"));
  EXPECT_THAT(trainer->saved_checkpoints(),
              ElementsAre(folder.Path("ep0-ba5"), folder.Path("ep1-ba6"), folder.Path("ep1-ba10")));
  for (const auto& [name, tensor] : NewestCheckpoint(folder.path()).tensors)
    EXPECT_TRUE(name.starts_with("model/")) << name;
  TrainerOptions other = Bare();
  FillParameters(*other.model, 0.9F);
  const at::Tensor first = other.model->parameters()[0].detach().clone();
  other.load.load_path = folder.path();
  other.load.load_weights_only = true;
  other.load.load_ignore_keys = [](const std::string& key) { return key == "model/first.weight"; };
  const auto loaded = Made(std::move(other));
  EXPECT_TRUE(Weights(*loaded)[0].equal(first));
  EXPECT_FALSE(Weights(*loaded)[0].equal(Weights(*trainer)[0]));
  EXPECT_TRUE(Weights(*loaded)[1].equal(Weights(*trainer)[1]));
}

}  // namespace
}  // namespace composer
