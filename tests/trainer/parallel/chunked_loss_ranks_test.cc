// The loss by chunks of tokens trains as that of whole logits, however the model is distributed.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/models/language_model.h"

namespace composer {
namespace {

RunResult TrainInChunks(int64_t chunk, int ranks, std::optional<ShardingStrategy> strategy, int64_t microbatch,
                        bool checkpoints_blocks = false) {
  return TrainOnRanks(ranks, [&](int) {
    TrainerOptions options = SmallRun();
    options.model = MakeGoldenGpt(ReadGoldenGeneration().options);
    dynamic_cast<LanguageModel&>(*options.model).SetLossChunk(chunk);
    options.make_optimizer = MakeGptAdamW;
    options.train.dataset = Sentences(21);
    options.train.global_train_batch_size = 6;
    options.device_train_microbatch_size = microbatch;
    options.max_duration = Time::Batches(6);
    options.activations.checkpoint.every = checkpoints_blocks ? 1 : 0;
    if (strategy) options.fsdp.emplace().strategy = *strategy;
    return options;
  })[0];
}

TEST(ChunkedLossOnRanks, EveryShardingTrainsAsWholeLogits) {
  at::set_num_threads(1);
  const RunResult whole = TrainInChunks(0, 1, std::nullopt, 0);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const std::optional<ShardingStrategy> strategies[] = {std::nullopt, ShardingStrategy::kNoShard,
                                                        ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard};
  for (const auto& strategy : strategies) {
    for (const int64_t microbatch : {0, 1}) {
      for (const bool blocks : {false, true}) {
        const RunResult chunked = TrainInChunks(5, 2, strategy, microbatch, blocks);
        ASSERT_TRUE(chunked.status.ok()) << chunked.status;
        ASSERT_EQ(chunked.losses.size(), whole.losses.size());
        for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(chunked.losses[i], whole.losses[i], 1e-4) << i;
        EXPECT_LT(LargestDifference(chunked, whole), 1e-3);
      }
    }
  }
}

struct SplitRun {
  const char* what;
  int64_t chunk;
  int ranks = 1, tensor = 1;
  std::optional<ShardingStrategy> strategy = std::nullopt;
  bool tied_head = true, plan = false, blocks = false;
};

RunResult TrainInChunks(const SplitRun& run) {
  static const auto& tied = *new FirstWeights(true);
  static const auto& untied = *new FirstWeights(false);
  return TrainOnRanks(run.ranks, [&](int) {
    TrainerOptions options = OptionsOf({.tensor = run.tensor,
                                        .strategy = run.strategy,
                                        .tied_head = run.tied_head,
                                        .microbatch = 2,
                                        .checkpoint_activations = run.blocks},
                                       run.tied_head ? tied : untied);
    dynamic_cast<LanguageModel&>(*options.model).SetLossChunk(run.chunk);
    if (run.plan) options.layer_plan = {{"*.mlp.fc", ParallelStyle::kColwise}, {"*.mlp.proj", ParallelStyle::kRowwise}};
    return options;
  })[0];
}

// The chunks of 5 do not divide the 8 tokens of a row, nor two ranks the vocabulary of 13.
TEST(ChunkedLossOnRanks, ASplitVocabularyTrainsAsWholeLogitsOnOneRank) {
  at::set_num_threads(1);
  for (const bool tied : {true, false}) {
    const RunResult whole = TrainInChunks({.what = "one rank", .chunk = 0, .tied_head = tied});
    const SplitRun runs[] = {{"two ranks", 5, 2, 2, std::nullopt, tied},
                             {"two ranks, blocks again in backward", 5, 2, 2, std::nullopt, tied, false, true},
                             {"four ranks", 3, 4, 4, std::nullopt, tied},
                             {"with DDP", 5, 4, 2, std::nullopt, tied},
                             {"with FULL_SHARD", 5, 4, 2, kFull, tied},
                             {"by a plan", 5, 2, 2, std::nullopt, tied, true}};
    for (const SplitRun& run : runs) {
      SCOPED_TRACE(run.what);
      const RunResult chunked = TrainInChunks(run);
      ASSERT_TRUE(chunked.status.ok()) << chunked.status;
      ASSERT_EQ(chunked.losses.size(), whole.losses.size());
      for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(chunked.losses[i], whole.losses[i], 1e-4) << i;
      EXPECT_LT(LargestDifference(chunked, whole), 1e-3);
    }
  }
}

}  // namespace
}  // namespace composer
