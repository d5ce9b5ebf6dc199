// Tests the algorithms that change layers or weights in runs: on one rank and two, with copies and sharded, resumed,
// and with models that they cannot change. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/library_rows.h"
#include "tests/trainer/loop/step_runs.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/init/change_model.h"
#include "trainer/init/construct_model.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct LibraryMesh {
  int ranks = 1;
  bool sharded = false;
};

RunResult TrainLibrary(const LibraryRow& row, bool with, const LibraryMesh& mesh, const std::string& folder,
                       int64_t batches) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = row.run(folder);
    if (mesh.sharded) options.fsdp.emplace();
    if (with) {
      options.algorithms.push_back(row.make());
      options.algorithms.back()->SetOrigin({row.name, "null", ""});
    }
    // Those that change the model are added again by the name in the checkpoint.
    options.make_algorithm = [make = row.make](const AlgorithmOrigin&) { return make(); };
    AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
      if (state.timestamp.batch >= batches) state.StopTraining();
    });
    return options;
  })[0];
}

TEST(AlgorithmLibrary, RunsOnEveryMeshAndResumesBitForBit) {
  for (const LibraryRow& row : LibraryRows()) {
    const RunResult plain = TrainLibrary(row, false, {}, "", 10), alone = TrainLibrary(row, true, {}, "", 10);
    ASSERT_TRUE(alone.status.ok()) << row.name << ": " << alone.status;
    if (std::string(row.name) != "channels_last") EXPECT_NE(alone.losses, plain.losses) << row.name;
    const auto has = [&](const auto& item) { return item.first == row.parameter; };
    EXPECT_TRUE(std::any_of(alone.tensors.begin(), alone.tensors.end(), has)) << row.name;
    for (const LibraryMesh& mesh : {LibraryMesh{1}, {2}, {2, true}}) {
      SCOPED_TRACE(std::string(row.name) + " on " + std::to_string(mesh.ranks) + (mesh.sharded ? ", sharded" : ""));
      if (mesh.sharded && !row.shards) continue;
      const TempDir whole, parts;
      const RunResult expected = TrainLibrary(row, true, mesh, whole.path(), 10);
      ASSERT_TRUE(expected.status.ok()) << expected.status;
      if (row.same_on_ranks) EXPECT_LT(LargestDifference(expected, alone), 2e-5);
      if (row.draws && mesh.ranks > 1) continue;  // library_test.py has ranks
      for (const int64_t batches : {3, 6})
        ASSERT_TRUE(TrainLibrary(row, true, mesh, parts.path(), batches).status.ok());
      const bool required = row.make()->required_on_load();
      const RunResult resumed = TrainLibrary(row, !required, mesh, parts.path(), 10);
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_FALSE(resumed.resumed_from.empty());
      EXPECT_EQ(LargestDifference(resumed, expected), 0);
    }
  }
}

TEST(AlgorithmLibrary, MakesModelsWithoutMemoryLikeOthers) {
  for (const LibraryRow& row : LibraryRows()) {
    const std::unique_ptr<Algorithm> algorithm = row.make();
    const auto make = WithChanges(row.run("").make_model, {algorithm.get()}, {Precision::kAmpBf16, at::kCPU}, 1);
    const ConstructedModel made = ConstructModel(make, 17);
    EXPECT_NE(made.init, nullptr) << row.name << ": " << made.whole_because;
  }
}

// What is recomputed in backward draws what it drew in forward.
TEST(AlgorithmLibrary, RecomputedBlocksAreTheSame) {
  for (const LibraryRow& row : LibraryRows()) {
    if (row.run == DropoutRun || std::string(row.name) == "no_op_model") continue;  // models without blocks
    SCOPED_TRACE(row.name);
    const auto train = [&](bool recompute) {
      TrainerOptions options = row.run("");
      options.algorithms.push_back(row.make());
      options.activations.checkpoint.every = recompute ? 1 : 0;
      return Train(std::move(options));
    };
    const RunResult expected = train(false), result = train(true);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.losses, expected.losses);
  }
}

TEST(AlgorithmLibrary, RunsInBf16) {
  for (const LibraryRow& row : LibraryRows()) {
    for (const LibraryMesh& mesh : {LibraryMesh{1}, {2, true}}) {
      if (mesh.sharded && !row.shards) continue;
      SCOPED_TRACE(row.name);
      const RunResult exact = TrainLibrary(row, true, mesh, "", 10);
      const RunResult half = TrainOnRanks(mesh.ranks, [&](int) {
        TrainerOptions options = row.run("");
        options.precision = Precision::kAmpBf16;
        if (mesh.sharded) options.fsdp.emplace();
        options.algorithms.push_back(row.make());
        return options;
      })[0];
      ASSERT_TRUE(half.status.ok()) << half.status;
      if (row.draws && mesh.ranks > 1) continue;  // ranks are threads here and share torch's generator
      EXPECT_NEAR(half.losses[0], exact.losses[0], 0.03 * std::abs(exact.losses[0]) + 0.02);
    }
  }
}

TEST(AlgorithmLibrary, ElasticRunsHaveTheSameBitsOnAnyNumberOfRanks) {
  for (const LibraryRow& row : LibraryRows()) {
    if (!row.same_on_ranks) continue;
    SCOPED_TRACE(row.name);
    const auto train = [&](int ranks, bool sharded) {
      return TrainOnRanks(ranks, [&](int) {
        TrainerOptions options = row.run("");
        options.virtual_shards = 4;
        if (sharded) options.fsdp.emplace();
        options.algorithms.push_back(row.make());
        return options;
      })[0];
    };
    const RunResult alone = train(1, false);
    if (row.make()->adds_samples()) {
      EXPECT_THAT(std::string(alone.status.message()), HasSubstr("an algorithm changed the number of samples"));
      continue;
    }
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    for (const bool sharded : {false, true}) ExpectSameBits(train(2, sharded), alone);
  }
}

TEST(Swa, GoesWithTensorParallelism) {
  const auto train = [](bool split, const std::string& folder, int64_t batches) {
    return TrainOnRanks(split ? 2 : 1, [&](int) {
      TrainerOptions options = LibraryGptRun(folder);
      options.algorithms.push_back(std::make_unique<Swa>(SwaOptions{
          .swa_start = Time::Duration(0.2), .swa_end = Time::Duration(0.7), .update_interval = Time::Batches(1)}));
      if (split) {
        options.tensor_parallel_degree = 2;
        options.split_model = [](const Model& whole, Communicator& group) {
          return MakeTensorParallelGpt(SmallGpt(true), whole, group);
        };
      }
      AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
        if (state.timestamp.batch >= batches) state.StopTraining();
      });
      return options;
    })[0];
  };
  const TempDir whole, parts;
  const RunResult alone = train(false, "", 10), split = train(true, whole.path(), 10);
  ASSERT_TRUE(split.status.ok()) << split.status;
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(split.losses[i], alone.losses[i], 2e-4);
  ASSERT_TRUE(train(true, parts.path(), 4).status.ok());
  EXPECT_EQ(LargestDifference(train(true, parts.path(), 10), split), 0);
}

TEST(ChannelsLast, ChangesNoValueAndRefusesPieces) {
  const std::vector<LibraryRow> rows = LibraryRows();
  const LibraryRow row = *std::find_if(rows.begin(), rows.end(),
                                       [](const LibraryRow& one) { return one.name == std::string("channels_last"); });
  const RunResult with = TrainLibrary(row, true, {}, "", 10), without = TrainLibrary(row, false, {}, "", 10);
  EXPECT_LT(LargestDifference(with, without), 2e-3);
  for (size_t i = 0; i < with.losses.size(); ++i) EXPECT_NEAR(with.losses[i], without.losses[i], 1e-4);
  EXPECT_THAT(std::string(TrainLibrary(row, true, {2, true}, "", 10).status.message()),
              HasSubstr("channels_last: parallelism_config.fsdp makes parameters flat pieces"));
  TrainerOptions options = row.run("");
  options.algorithms.push_back(row.make());
  bool seen = false;
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    for (const at::Tensor& param : state.model->parameters()) {
      if (param.dim() == 4 && param.size(1) > 1)
        EXPECT_TRUE(seen = param.is_contiguous(at::MemoryFormat::ChannelsLast));
    }
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_TRUE(seen);
}

TEST(Alibi, TakesLongerSequencesThanItWasTrainedOnAndFreezesPositions) {
  TrainerOptions options = LibraryGptRun("");
  options.algorithms.push_back(std::make_unique<Alibi>(AlibiOptions{32, 0.25}));
  std::vector<int64_t> shape;
  AddCallback(options, {Event::kAfterTrainBatch}, [&](State& state) { shape = state.batch.inputs.sizes().vec(); });
  AddCallback(options, {Event::kFitEnd}, [&](State& state) {
    const torch::NoGradGuard no_grad;
    state.model->eval();
    const auto logits = [&](int64_t tokens) {
      Batch batch;
      batch.inputs = torch::arange(32, at::kLong).remainder(12).unsqueeze(0).slice(1, 0, tokens);
      return state.model->forward(batch).tensor();
    };
    EXPECT_TRUE(torch::allclose(logits(32).slice(1, 0, 8), logits(8), 1e-4, 1e-5)) << "causal";
    for (const auto& item : state.model->named_parameters()) {
      if (item.key() != "transformer.wpe.weight") continue;
      EXPECT_EQ(item.value().sizes().vec(), (std::vector<int64_t>{32, item.value().size(1)}));
      EXPECT_FALSE(item.value().requires_grad());
      EXPECT_TRUE(item.value().eq(0).all().item<bool>());
    }
  });
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(shape, (std::vector<int64_t>{32, 2}));
  EXPECT_EQ(result.timestamp.sample, 80) << "clocks count the samples that were loaded";
}

TEST(Swa, AnnealsTheLearningRateAndTakesTheMeansPlaceAtItsEnd) {
  for (const bool cosine : {false, true}) {
    TrainerOptions options = LibraryGptRun("");
    options.algorithms.push_back(std::make_unique<Swa>(SwaOptions{.swa_start = Time::Duration(0.2),
                                                                  .swa_end = Time::Duration(0.7),
                                                                  .update_interval = Time::Batches(1),
                                                                  .schedule_swa_lr = true,
                                                                  .anneal_cosine = cosine,
                                                                  .anneal_steps = 4,
                                                                  .swa_lr = 0.002}));
    std::vector<double> rates;
    std::vector<at::Tensor> weights;
    AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
      rates.push_back(state.optimizer->groups()[0].lr);
      weights.push_back(state.model->parameters()[0].detach().clone());
    });
    ASSERT_TRUE(Train(std::move(options)).status.ok());
    const double middle = cosine ? 0.01 - 0.008 * (1 - std::sqrt(0.5)) / 2 : 0.008;
    const double expected[] = {0.01,  0.01,  middle, 0.006, cosine ? 0.012 - middle : 0.004,
                               0.002, 0.002, 0.01,   0.01,  0.01};
    for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(rates[i], expected[i], 1e-9) << i;
    at::Tensor mean = weights[1].clone();
    for (size_t i = 2; i < 6; ++i) mean += weights[i];
    // The callback at batch 7 sees the mean of seven weights, of which the last is not seen.
    EXPECT_FALSE(weights[6].equal(weights[5]));
    EXPECT_LT((weights[6] - mean / 5).abs().max().item<double>(), (weights[6] - weights[5]).abs().max().item<double>());
  }
}

TEST(AlgorithmLibrary, WhatCannotBeIsNamed) {
  const auto message = [](TrainerOptions options, std::unique_ptr<Algorithm> algorithm) {
    options.algorithms.push_back(std::move(algorithm));
    return std::string(Train(std::move(options)).status.message());
  };
  EXPECT_THAT(message(LibraryImageRun(""), std::make_unique<Alibi>(AlibiOptions{8, 1})),
              HasSubstr("alibi: it needs attention (DotProductAttention) and an embedding of positions"));
  EXPECT_THAT(message(LibraryGptRun(""), std::make_unique<Alibi>(AlibiOptions{16, 0.3})),
              HasSubstr("does not cut `targets` [8, 8]"));
  EXPECT_THAT(message(LibraryImageRun(""), std::make_unique<GhostBatchNorm>(16)),
              HasSubstr("8 samples is smaller than ghost_batch_size 16"));
  EXPECT_THAT(message(DropoutRun(""), std::make_unique<GyroDropout>()),
              HasSubstr("8 samples is not a multiple of tau 16"));
  TrainerOptions by_samples = DropoutRun("");
  by_samples.max_duration = Time::Samples(64);
  EXPECT_THAT(message(std::move(by_samples), std::make_unique<GyroDropout>(GyroDropoutOptions{.tau = 4})),
              HasSubstr("max_duration: 64sp, it must be in batches"));
  TrainerOptions twice = LibraryGptRun("");
  twice.algorithms.push_back(std::make_unique<Swa>(SwaOptions{}));
  EXPECT_THAT(message(std::move(twice), std::make_unique<Swa>(SwaOptions{})), HasSubstr("there are two in algorithms"));
  const std::pair<SwaOptions, const char*> bad[] = {
      {{.swa_start = Time::Batches(3)}, "swa_start: 3ba"},
      {{.swa_start = Time::Epochs(1)}, "swa_end: 0.97dur, it must have the unit of swa_start"},
      {{.swa_start = Time::Duration(0.98)}, "swa_end: 0.97dur, it must be after"},
      {{.update_interval = Time::Samples(3)}, "update_interval: 3sp"},
      {{.anneal_steps = 0}, "anneal_steps: 0"}};
  for (const auto& [options, expected] : bad)
    EXPECT_THAT(std::string(Validate(options).message()), HasSubstr(expected));
  EXPECT_THAT(std::string(Validate(StochasticDepthOptions{
                                       .target_layer_name = "ResNetBasicBlock", .by_sample = true, .drop_warmup = 0.1})
                              .message()),
              HasSubstr("drop_warmup: 0.1, it must be 0 with"));
  EXPECT_THAT(std::string(Validate(StochasticDepthOptions{.target_layer_name = "x", .drop_rate = 2}).message()),
              HasSubstr("drop_rate: 2"));
}

// A layer of a class that no algorithm knows, as a plugin may have one, and what is to take its place.
struct OwnLayer final : torch::nn::Module, Layer {
  at::Tensor forward(const at::Tensor& x) override { return x; }
};
struct OwnReplacement final : torch::nn::Module, Layer {
  at::Tensor forward(const at::Tensor& x) override { return x; }
};

TEST(AlgorithmLibrary, EverySurgeryTakesThePoliciesThatARunHasForIt) {
  class Net final : public Classifier {
   public:
    Net() : own_(*this, "own", std::make_shared<OwnLayer>()) {}

   protected:
    at::Tensor Logits(const at::Tensor& inputs) override { return own_->forward(inputs); }

   private:
    Slot<Layer> own_;
  };
  for (const LibraryRow& row : LibraryRows()) {
    const auto algorithm = row.make();
    ModelContext context{Precision::kAmpBf16};
    context.policies = {MakeLayerPolicy<OwnLayer, OwnReplacement>(
        algorithm->name(), "own", [](const std::string&, const auto&) { return std::make_shared<OwnReplacement>(); })};
    Net model;
    const absl::Status changed = algorithm->ChangeModel(model, context);
    const bool replaced = model.named_children()["own"]->as<OwnReplacement>() != nullptr;
    const bool has_layers = dynamic_cast<const Surgery*>(algorithm.get()) != nullptr ||
                            row.name == std::string("alibi") || absl::StartsWith(row.name, "gyro_dropout") ||
                            absl::StartsWith(row.name, "stochastic_depth");
    // LoRA's layers are given by name, and this model has none of those.
    const bool others = row.name == std::string("no_op_model") || row.name == std::string("channels_last") ||
                        row.name == std::string("lora");
    EXPECT_EQ(replaced, has_layers && !others) << row.name;
    if (replaced) EXPECT_TRUE(changed.ok()) << row.name << ": " << changed;
  }
}

}  // namespace
}  // namespace composer
