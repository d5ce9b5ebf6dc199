// Tests `precision: amp_fp8` in whole runs of a small GPT: its loss beside amp_bf16's, and the same bits with and
// without a restart, recomputation and sharding.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/layers/fp8_linear.h"
#include "trainer/models/gpt.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocab = 48, kContext = 16;

// Each token follows from the one before, but for one in four.
std::shared_ptr<const Dataset> Tokens(int64_t rows) {
  Draws draws(7);
  at::Tensor tokens = torch::empty({rows, kContext + 1}, at::kLong);
  auto* const data = tokens.mutable_data_ptr<int64_t>();
  const auto any = [&] { return static_cast<int64_t>((draws.Next() + 1) * kVocab / 2); };
  for (int64_t i = 0; i < tokens.numel(); ++i)
    data[i] = i % (kContext + 1) == 0 || draws.Next() > 0.5F ? any() : (5 * data[i - 1] + 3) % kVocab;
  return MakeTensorRows(tokens.narrow(1, 0, kContext).contiguous(), tokens.narrow(1, 1, kContext).contiguous(),
                        kContext);
}

// From draws and not torch's generator, which ranks share.
std::shared_ptr<Model> SmallGpt(bool tied_head = true) {
  std::shared_ptr<Model> model =
      MakeGpt({.layers = 2, .heads = 2, .width = 32, .context = kContext, .vocab = kVocab, .tied_head = tied_head});
  const torch::NoGradGuard no_grad;
  Draws draws(5);
  for (const at::Tensor& param : model->parameters()) {
    if (param.dim() < 2) continue;
    for (int64_t i = 0; i < param.numel(); ++i) param.mutable_data_ptr<float>()[i] = 0.05F * draws.Next();
  }
  return model;
}

TrainerOptions GptRun(Precision precision, int64_t batches) {
  TrainerOptions options = SmallRun();
  options.model = SmallGpt();
  options.train.dataset = Tokens(256);
  options.train.global_train_batch_size = 16;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 3e-3); };
  options.max_duration = Time::Batches(batches);
  options.precision = precision;
  return options;
}

double LastLosses(const RunResult& run) {
  double sum = 0;
  for (size_t i = run.losses.size() - 20; i < run.losses.size(); ++i) sum += run.losses[i] / 20;
  return sum;
}

// Each row is seen once.
TrainerOptions LongRun(Precision precision) {
  TrainerOptions options = GptRun(precision, 200);
  options.train.dataset = Tokens(200 * 16);
  return options;
}

TEST(AmpFp8, LosesAsLittleAsBfloat16In200Steps) {
  const RunResult bf16 = Train(LongRun(Precision::kAmpBf16));
  ASSERT_TRUE(bf16.status.ok()) << bf16.status;
  EXPECT_LT(LastLosses(bf16), bf16.losses[0] - 1) << "it learns";
  for (const Fp8Recipe& recipe : {Fp8Recipe{}, Fp8Recipe{.scaling = Fp8Scales::kCurrent}}) {
    TrainerOptions options = LongRun(Precision::kAmpFp8);
    options.precision_config = recipe;
    const RunResult fp8 = Train(std::move(options));
    ASSERT_TRUE(fp8.status.ok()) << fp8.status;
    EXPECT_NEAR(LastLosses(fp8), LastLosses(bf16), 0.01);
    std::printf("loss %.4f, in bfloat16 %.4f\n", LastLosses(fp8), LastLosses(bf16));
    EXPECT_NE(fp8.losses[1], bf16.losses[1]);
  }
}

TEST(AmpFp8, AMicrobatchIsScaledAsTheWholeStep) {
  TrainerOptions parts = GptRun(Precision::kAmpFp8, 10);
  parts.device_train_microbatch_size = 4;
  const RunResult whole = Train(GptRun(Precision::kAmpFp8, 10)), in_parts = Train(std::move(parts));
  ASSERT_EQ(in_parts.losses.size(), 10);
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(in_parts.losses[i], whole.losses[i], 0.01);
}

TEST(AmpFp8, ARunThatResumesHasTheSameBits) {
  for (const Fp8Scales scaling : {Fp8Scales::kDelayed, Fp8Scales::kCurrent}) {
    const TempDir folder;
    const auto part = [&](int64_t batches, bool saves) {
      TrainerOptions options = GptRun(Precision::kAmpFp8, batches);
      options.precision_config.scaling = scaling;
      options.precision_config.amax_history_len = 3;
      if (saves) options.save.save_folder = folder.path();
      return Train(std::move(options));
    };
    const RunResult whole = part(12, false);
    ASSERT_TRUE(part(5, true).status.ok());
    const bool has_history = scaling == Fp8Scales::kDelayed;
    const StateDict saved = NewestCheckpoint(folder.path());
    EXPECT_EQ(std::any_of(saved.tensors.begin(), saved.tensors.end(),
                          [](const auto& item) { return item.first == "algorithms/AmpFp8/amax_history"; }),
              has_history);
    const RunResult resumed = part(12, true);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_NE(resumed.resumed_from, "");
    for (size_t i = 0; i < whole.tensors.size(); ++i)
      EXPECT_TRUE(resumed.tensors.at(i).second.equal(whole.tensors[i].second)) << whole.tensors[i].first;
  }
}

TEST(AmpFp8, WeightsGoFromOnePrecisionToAnother) {
  for (const Precision first : {Precision::kAmpBf16, Precision::kAmpFp8}) {
    const TempDir folder;
    TrainerOptions options = GptRun(first, 4);
    options.save.save_folder = folder.path();
    ASSERT_TRUE(Train(std::move(options)).status.ok());
    options = GptRun(first == Precision::kAmpBf16 ? Precision::kAmpFp8 : Precision::kAmpBf16, 8);
    options.save.save_folder = folder.path();
    const RunResult resumed = Train(std::move(options));
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_NE(resumed.resumed_from, "");
    EXPECT_EQ(resumed.losses.size(), 4);
  }
}

TEST(AmpFp8, RecomputationRoundsToTheSameBits) {
  for (const Fp8Scales scaling : {Fp8Scales::kDelayed, Fp8Scales::kCurrent}) {
    const auto run = [&](bool recomputes) {
      TrainerOptions options = GptRun(Precision::kAmpFp8, 8);
      options.precision_config.scaling = scaling;
      options.activations.checkpoint.every = recomputes ? 1 : 0;
      return Train(std::move(options));
    };
    ExpectSameBits(run(true), run(false));
  }
}

// FULL gathers float32, so that each rank rounds what it rounds without sharding; amaxes are the same on all ranks.
TEST(AmpFp8, ShardingHasTheBitsOfDdp) {
  const auto run = [](std::optional<ShardingStrategy> strategy, bool recomputes) {
    std::vector<RunResult> results = TrainOnRanks(2, [&](int) {
      TrainerOptions options = GptRun(Precision::kAmpFp8, 8);
      options.activations.checkpoint.every = recomputes ? 1 : 0;
      if (strategy.has_value()) {
        options.fsdp.emplace();
        options.fsdp->strategy = *strategy;
      }
      return options;
    });
    EXPECT_TRUE(results[0].status.ok()) << results[0].status;
    EXPECT_EQ(LargestDifference(results[0], results[1]), 0);
    return std::move(results[0]);
  };
  const RunResult ddp = run(std::nullopt, false);
  for (const ShardingStrategy strategy : {ShardingStrategy::kFullShard, ShardingStrategy::kShardGradOp}) {
    for (const bool recomputes : {false, true}) {
      const RunResult sharded = run(strategy, recomputes);
      EXPECT_EQ(LargestDifference(sharded, ddp), 0);
    }
  }
}

TEST(AmpFp8, OneTwoAndFourRanksHaveTheSameBitsWhenElastic) {
  const auto run = [](int ranks) {
    return TrainOnRanks(ranks, [](int) {
      TrainerOptions options = GptRun(Precision::kAmpFp8, 6);
      options.virtual_shards = 4;
      return options;
    })[0];
  };
  const RunResult one = run(1);
  ASSERT_TRUE(one.status.ok()) << one.status;
  for (const int ranks : {2, 4}) EXPECT_EQ(LargestDifference(run(ranks), one), 0) << ranks;
}

TEST(AmpFp8, OneCollectiveMoreAStepAndNoneWhenCurrent) {
  const auto collectives = [](Precision precision, Fp8Scales scaling) {
    return TrainOnRanks(2,
                        [&](int) {
                          TrainerOptions options = GptRun(precision, 8);
                          options.precision_config.scaling = scaling;
                          return options;
                        })[0]
        .num_collectives;
  };
  const int64_t bf16 = collectives(Precision::kAmpBf16, Fp8Scales::kDelayed);
  EXPECT_EQ(collectives(Precision::kAmpFp8, Fp8Scales::kDelayed), bf16 + 8);
  EXPECT_EQ(collectives(Precision::kAmpFp8, Fp8Scales::kCurrent), bf16);
}

TEST(AmpFp8, HeadExcludedLayersAndOddSizesStay) {
  TrainerOptions options = GptRun(Precision::kAmpFp8, 1);
  options.model =
      MakeGpt({.layers = 2, .heads = 2, .width = 32, .context = kContext, .vocab = kVocab, .tied_head = false});
  options.precision_config.exclude.texts = {"transformer.blocks.1.*"};
  const absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  std::vector<std::string> names;
  for (const auto& [name, module] : FindLayers(*(*trainer)->state().model, LayersOfType<Fp8LinearLayer>()))
    names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("transformer.blocks.0.attn.qkv", "transformer.blocks.0.attn.proj",
                                          "transformer.blocks.0.mlp.fc", "transformer.blocks.0.mlp.proj"));
}

std::string Refusal(const std::function<void(TrainerOptions&)>& change) {
  TrainerOptions options = GptRun(Precision::kAmpFp8, 1);
  change(options);
  return std::string(Train(std::move(options)).status.message());
}

TEST(AmpFp8, RefusesByName) {
  EXPECT_THAT(Refusal([](TrainerOptions& options) { options.precision_config.amax_history_len = 0; }),
              HasSubstr("amax_history_len: 0"));
  EXPECT_THAT(Refusal([](TrainerOptions& options) { options.precision_config.margin = 17; }), HasSubstr("margin: 17"));
  EXPECT_THAT(Refusal([](TrainerOptions& options) { options.precision_config.exclude.texts = {"nothing"}; }),
              HasSubstr("precision_config.exclude: "));
  EXPECT_THAT(Refusal([](TrainerOptions& options) { options.model = MakeTestModel(); }),
              HasSubstr("has no linear layer that can compute in 8 bits; write amp_bf16"));
  TrainerOptions split = GptRun(Precision::kAmpFp8, 1);
  split.tensor_parallel_degree = 2;
  split.layer_plan = {{"transformer.blocks.*.mlp.fc", ParallelStyle::kColwise}};
  EXPECT_THAT(std::string(Validate(split, 2).message()), HasSubstr("amp_fp8 does not go with tensor_parallel_degree"));
  TrainerOptions plain = GptRun(Precision::kAmpBf16, 2);
  auto trainer = Trainer::Create(std::move(plain));
  ASSERT_TRUE(trainer.ok());
  EXPECT_THAT(std::string((*trainer)->Fit({.precision = Precision::kAmpFp8}).message()),
              HasSubstr("give it to the trainer"));
}

TEST(AmpFp8, FitMayGoOnInAnotherPrecision) {
  TrainerOptions options = GptRun(Precision::kAmpFp8, 2);
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Fit().ok());
  ASSERT_TRUE((*trainer)->Fit({.duration = Time::Batches(2), .precision = Precision::kAmpBf16}).ok());
  bool any = false;
  for (const auto& module : (*trainer)->state().model->modules()) {
    const auto* layer = dynamic_cast<const Fp8LinearLayer*>(module.get());
    any = any || (layer != nullptr && layer->scaling()->is_on());
  }
  EXPECT_FALSE(any);
}

}  // namespace
}  // namespace composer
