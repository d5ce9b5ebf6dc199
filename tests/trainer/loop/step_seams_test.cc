// Tests what algorithms may do to a step: prune and grow its batch, replace its loss, draw random numbers, look at
// gradients with their graph, leave the update out.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/step_runs.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/options/fsdp_options.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One step of all 40 samples.
TrainerOptions OneBatch(bool sharded = false) {
  TrainerOptions options = SmallRun();
  options.train.global_train_batch_size = 40;
  options.max_duration = Time::Batches(3);
  if (sharded) options.fsdp.emplace();
  return options;
}

RunResult TrainPruned(int ranks, bool sharded, int64_t microbatch) {
  return TrainOnRanks(ranks, [&](int) {
    TrainerOptions options = OneBatch(sharded);
    options.device_train_microbatch_size = microbatch;
    AddAlgorithm(options, {Event::kAfterDataloader}, KeepEvenSamples);
    return options;
  })[0];
}

TEST(StepSeams, APrunedBatchTrainsOnTheMeanOfWhatIsLeft) {
  TrainerOptions halved = OneBatch();
  const Batch even = [] {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 40; i += 2) ids.push_back(i);
    return MakeRows(40)->Load(ids);
  }();
  halved.train.dataset = MakeTensorRows(even.inputs, even.targets);
  halved.train.global_train_batch_size = 20;
  const RunResult expected = Train(std::move(halved));
  ASSERT_TRUE(expected.status.ok());
  for (const bool sharded : {false, true}) {
    for (const int ranks : {1, 2, 3}) {
      for (const int64_t microbatch : {0, 3}) {
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", sharded ? "sharded, " : "", "microbatches of ", microbatch));
        const RunResult pruned = TrainPruned(ranks, sharded, microbatch);
        ASSERT_TRUE(pruned.status.ok()) << pruned.status;
        EXPECT_LT(LargestDifference(pruned, expected), 2e-6);
        for (size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(pruned.losses[i], expected.losses[i], 1e-6);
        EXPECT_EQ(pruned.timestamp.sample, 120) << "clocks count what the loader gave";
      }
    }
  }
}

TEST(StepSeams, ABatchWhoseTensorsOnlyWereCutIsCountedByThem) {
  TrainerOptions options = OneBatch();
  AddAlgorithm(options, {Event::kAfterDataloader}, [](State& state) {
    state.batch.inputs = state.batch.inputs.slice(0, 0, 20);
    state.batch.targets = state.batch.targets.slice(0, 0, 20);
  });
  int64_t seen = 0;
  AddCallback(options, {Event::kAfterTrainBatch}, [&](State& state) { seen = state.batch.num_samples; });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(seen, 20);

  TrainerOptions torn = OneBatch();
  AddAlgorithm(torn, {Event::kAfterDataloader},
               [](State& state) { state.batch.inputs = state.batch.inputs.slice(0, 0, 20); });
  EXPECT_THAT(std::string(Train(std::move(torn)).status.message()), HasSubstr("has 20 inputs and 40 targets"));
}

TEST(StepSeams, NamedTensorsAreCutWithTheOthers) {
  TrainerOptions options = OneBatch();
  AddAlgorithm(options, {Event::kAfterDataloader}, [](State& state) {
    state.batch.extra["mask"] = torch::ones({40, 2});
    state.batch.inputs = state.batch.inputs.slice(0, 0, 20);
    state.batch.targets = state.batch.targets.slice(0, 0, 20);
  });
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()), HasSubstr("its `mask` has shape [40, 2]"));
}

TEST(StepSeams, NoSampleLeftIsAnError) {
  TrainerOptions options = OneBatch();
  AddAlgorithm(options, {Event::kAfterDataloader}, [](State& state) { state.batch = state.batch.Select({}); });
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()), HasSubstr("left no sample of batch 1"));
}

// Doubles the batch by repeating its rows, on odd ranks once more.
class Repeat final : public DoAt {
 public:
  explicit Repeat(bool declares)
      : DoAt({Event::kBatchStart},
             [](State& state) {
               Batch& batch = state.batch;
               const int64_t times = 2 + state.identity.data_rank % 2;
               batch.inputs = batch.inputs.repeat({times, 1});
               batch.targets = batch.targets.repeat({times});
             }),
        declares_(declares) {}
  bool adds_samples() const override { return declares_; }

 private:
  bool declares_;
};

TEST(StepSeams, AGrownBatchTakesMorePassesOnAllRanks) {
  const auto run = [](int ranks, bool sharded, bool declares) {
    return TrainOnRanks(ranks, [&](int) {
      TrainerOptions options = OneBatch(sharded);
      options.device_train_microbatch_size = 7;
      options.algorithms.push_back(std::make_unique<Repeat>(declares));
      return options;
    })[0];
  };
  const RunResult alone = Train(OneBatch());
  EXPECT_LT(LargestDifference(run(1, false, false), alone), 2e-6) << "each sample counts twice: the same mean";
  const RunResult two = run(2, false, true), sharded = run(2, true, true);
  ASSERT_TRUE(two.status.ok()) << two.status;
  ASSERT_TRUE(sharded.status.ok()) << sharded.status;
  EXPECT_LT(LargestDifference(two, sharded), 2e-6);
  EXPECT_GT(LargestDifference(two, alone), 1e-4) << "rank 1's samples count three times";
  EXPECT_THAT(std::string(run(2, true, false).status.message()), HasSubstr("its adds_samples() is false"));
}

TEST(StepSeams, ElasticRunsRefuseAPrunedBatch) {
  TrainerOptions options = OneBatch();
  options.virtual_shards = 4;
  AddAlgorithm(options, {Event::kAfterDataloader}, KeepEvenSamples);
  EXPECT_THAT(std::string(Train(std::move(options)).status.message()),
              HasSubstr("determinism: elastic: an algorithm changed the number of samples"));
}

TEST(StepSeams, TheLossThatIsTrainedOnIsLogged) {
  const RunResult plain = Train(OneBatch());
  for (const Event event : {Event::kAfterLoss, Event::kBeforeBackward}) {
    TrainerOptions options = OneBatch();
    AddAlgorithm(options, {event}, [](State& state) { state.loss = state.loss * 10; });
    const RunResult result = Train(std::move(options));
    EXPECT_NEAR(result.losses[0], 10 * plain.losses[0], 1e-5) << EventName(event);
  }
}

TEST(StepSeams, TheLossFunctionMayBeReplaced) {
  TrainerOptions options = OneBatch();
  AddAlgorithm(options, {Event::kFitStart}, [](State& state) {
    state.loss_function = [&state](const Outputs& outputs, const Batch& batch) -> Loss {
      return state.model->sample_losses(outputs, batch).square().mean();
    };
  });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(std::abs(result.losses[0] - Train(OneBatch()).losses[0]), 0.1);
}

TEST(StepSeams, AnUpdateMayBeLeftOut) {
  std::vector<at::Tensor> weights;
  TrainerOptions options = OneBatch();
  AddAlgorithm(options, {Event::kAfterTrainBatch}, [](State& state) {
    if (state.timestamp.batch == 1) state.SkipUpdate();
  });
  AddCallback(options, {Event::kBatchEnd},
              [&](State& state) { weights.push_back(state.model->parameters()[0].detach().clone()); });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_TRUE(weights[1].equal(weights[0]));
  EXPECT_FALSE(weights[2].equal(weights[1]));
}

class WithGraph final : public DoAt {
 public:
  using DoAt::DoAt;
  bool backwards_create_graph() const override { return true; }
};

TEST(StepSeams, GradientsHaveAGraphWhereAnAlgorithmAsksForIt) {
  const auto options_with = [](bool* has_graph) {
    TrainerOptions options = OneBatch();
    options.algorithms.push_back(std::make_unique<WithGraph>(EventSet{Event::kAfterBackward}, [=](State& state) {
      *has_graph = state.model->parameters()[0].grad().requires_grad();
    }));
    return options;
  };
  bool has_graph = false;
  EXPECT_TRUE(Train(options_with(&has_graph)).status.ok());
  EXPECT_TRUE(has_graph);
  const RunResult refused = TrainOnRanks(2, [&](int) { return options_with(&has_graph); })[0];
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status.message()), HasSubstr("DoAt differentiates through gradients"));
}

TEST(StepSeams, TrainMetricsSeeTheBatchBeforeTheForwardPass) {
  const auto accuracy = [](bool changes) {
    TrainerOptions options = OneBatch();
    MetricHistory history;
    options.loggers.push_back(std::make_unique<InMemoryLogger>(&history));
    if (changes) {
      AddAlgorithm(options, {Event::kBeforeForward},
                   [](State& state) { state.batch.targets = (state.batch.targets + 1) % 4; });
    }
    auto trainer = Trainer::Create(std::move(options)).value();
    EXPECT_TRUE(trainer->Fit().ok());
    return history.Values("metrics/train/MulticlassAccuracy").at(0);
  };
  EXPECT_EQ(accuracy(true), accuracy(false));
}

TEST(StepSeams, AutocastCoversForwardAndLossOnly) {
  TrainerOptions options = OneBatch();
  options.precision = Precision::kAmpBf16;
  std::vector<bool> on;
  AddAlgorithm(
      options,
      {Event::kBeforeForward, Event::kAfterForward, Event::kBeforeLoss, Event::kAfterLoss, Event::kBeforeBackward},
      [&](State& state) {
        on.push_back(at::autocast::is_autocast_enabled(at::kCPU));
        if (state.outputs.defined() && on.size() == 2) EXPECT_EQ(state.outputs->scalar_type(), at::kBFloat16);
      });
  options.max_duration = Time::Batches(1);
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(on, ElementsAre(false, false, false, false, false));
}

class TwelveLosses final : public Model {
 public:
  TwelveLosses() : layer_(8, 12) {
    register_module("layer", layer_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return layer_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& /*batch*/) override {
    std::vector<at::Tensor> parts;
    for (int64_t i = 0; i < 12; ++i) parts.push_back(outputs->select(1, i).square().mean());
    return Loss(parts);
  }
  MetricList metrics(bool /*is_train*/) const override { return {}; }

 private:
  torch::nn::Linear layer_;
};

TEST(StepSeams, AllPartsOfALossAreLoggedOnAnyNumberOfRanks) {
  const auto logged = [](int ranks, int virtual_shards) {
    MetricHistory history;
    TrainOnRanks(ranks, [&](int rank) {
      TrainerOptions options = OneBatch();
      options.model = std::make_shared<TwelveLosses>();
      options.virtual_shards = virtual_shards;
      options.train.global_train_batch_size = 5;  // with eight leaves some have no sample
      if (rank == 0) options.loggers.push_back(std::make_unique<InMemoryLogger>(&history));
      return options;
    });
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) {
      for (const double value : history.Values(absl::StrCat("loss/train/loss", i))) values.push_back(value);
    }
    return values;
  };
  const std::vector<double> alone = logged(1, 0);
  ASSERT_EQ(alone.size(), 36u);
  for (const auto& [ranks, shards] : {std::pair{3, 0}, {1, 8}, {2, 8}}) {
    const std::vector<double> values = logged(ranks, shards);
    ASSERT_EQ(values.size(), alone.size()) << ranks << " ranks";
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], alone[i], 1e-6) << ranks << " ranks, " << i;
  }
}

class DrawsTest : public testing::TestWithParam<Event> {};

// Each draw changes the weights, so that they tell whether it came again after the restart.
TEST_P(DrawsTest, WhatAnAlgorithmDrawsIsDrawnAgainAfterAResume) {
  const auto run = [&](int64_t batches, const std::string& folder) {
    TrainerOptions options = SmallRun({.dropout = 0.2});
    options.device_train_microbatch_size = 3;
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(100);
    AddAlgorithm(options, {GetParam()}, [](State& state) {
      const torch::NoGradGuard no_grad;
      at::Tensor weight = state.model->parameters()[0];
      weight.set_data(weight.detach() + 0.01 * torch::randn(weight.sizes()));
    });
    return Train(std::move(options));
  };
  const TempDir whole, stopped;
  const RunResult expected = run(10, whole.path());
  ASSERT_TRUE(expected.status.ok()) << expected.status;
  ASSERT_TRUE(run(4, stopped.path()).status.ok());
  const RunResult resumed = run(10, stopped.path());
  ASSERT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.losses.size(), 6u);
  EXPECT_EQ(LargestDifference(resumed, expected), 0);
}

INSTANTIATE_TEST_SUITE_P(Events, DrawsTest,
                         testing::Values(Event::kBeforeDataloader, Event::kAfterDataloader, Event::kBatchStart,
                                         Event::kBeforeTrainBatch, Event::kBeforeForward, Event::kAfterLoss,
                                         Event::kAfterTrainBatch, Event::kBatchEnd, Event::kEpochStart,
                                         Event::kEpochEnd),
                         [](const auto& param_info) { return std::string(EventName(param_info.param)); });

}  // namespace
}  // namespace composer
