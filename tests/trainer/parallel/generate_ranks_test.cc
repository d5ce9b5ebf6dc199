// Generation on ranks: every way to distribute a model gives the tokens of one rank, which equal Hugging Face's.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"

namespace composer {
namespace {

struct Spread {
  const char* what;
  std::optional<ShardingStrategy> strategy;
  int tensor = 1;
  int replicate = 1;
  bool bf16 = false;  // bfloat16 parameters while they are whole
  bool plan = false;  // split by a plan of layers
};

struct Generated {
  std::vector<std::string> texts;
  int64_t collectives = 0;
};

class GenerateOnRanks : public testing::Test {
 protected:
  GenerateOnRanks() { at::set_num_threads(1); }  // ranks are threads already
  TrainerOptions Run(const Spread& mesh) const {
    TrainerOptions options = SmallRun();
    options.model = MakeGoldenGpt(golden_.options);
    options.make_optimizer = MakeGptAdamW;
    options.train.dataset = Sentences(21);
    options.train.global_train_batch_size = 5;
    options.max_duration = Time::Batches(3);
    options.tensor_parallel_degree = mesh.tensor;
    options.split_model = [gpt = golden_.options](const Model& whole, Communicator& group) {
      return MakeTensorParallelGpt(gpt, whole, group);
    };
    if (mesh.plan) {
      options.layer_plan = {{"*.attn.qkv", ParallelStyle::kColwise},
                            {"*.attn.proj", ParallelStyle::kRowwise},
                            {"*.mlp.fc", ParallelStyle::kColwise},
                            {"*.mlp.proj", ParallelStyle::kRowwise}};
    }
    if (mesh.strategy) {
      options.fsdp.emplace().strategy = *mesh.strategy;
      options.fsdp->data_parallel_replicate_degree = mesh.replicate;
      if (mesh.bf16) options.fsdp->param_dtype = at::kBFloat16;
    }
    return options;
  }
  // Returns results by rank.
  std::vector<Generated> Generate(const Spread& mesh, int ranks, const TokenLists& prompts,
                                  const GenerateOptions& options) const {
    ThreadsExchange exchange(ranks);
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<Generated> results(static_cast<size_t>(ranks));
    SpawnRanks(ranks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      TrainerOptions own = Run(mesh);
      own.communicator = &communicator;
      own.store = store;
      const auto trainer = Trainer::Create(std::move(own)).value();
      const int64_t before = communicator.num_collectives();
      Generated& result = results[static_cast<size_t>(rank)];
      result.texts = trainer->Generate(TextsOf(prompts), options).value();
      result.collectives = communicator.num_collectives() - before;
    });
    return results;
  }

  GoldenGeneration golden_ = ReadGoldenGeneration();
};

constexpr ShardingStrategy kNoShard = ShardingStrategy::kNoShard, kGradOp = ShardingStrategy::kShardGradOp,
                           kFull = ShardingStrategy::kFullShard;

TEST_F(GenerateOnRanks, EveryStrategyAndNumberOfRanksGivesTheSame) {
  const Spread meshes[] = {
      {"DDP", std::nullopt}, {"NO_SHARD", kNoShard}, {"SHARD_GRAD_OP", kGradOp}, {"FULL_SHARD", kFull}};
  const std::vector<std::string> greedy = TextsOf(golden_.greedy);
  std::vector<std::string> with_eos;
  for (std::vector<int64_t> tokens : golden_.greedy_eos) {
    if (tokens.back() == golden_.eos) tokens.pop_back();
    with_eos.push_back(TextOf(tokens));
  }
  for (const Spread& mesh : meshes) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const size_t count : {5, 2}) {  // 2 is fewer prompts than ranks
        const TokenLists prompts(golden_.prompts.begin(), golden_.prompts.begin() + static_cast<int64_t>(count));
        for (const bool eos : {false, true}) {
          for (const bool summon : {false, true}) {
            GenerateOptions options;
            options.batch_size = 1 + ranks % 2;
            options.summon_full_params = summon;
            options.use_cache = !summon || ranks != 3;
            if (eos) options.eos_token_id = {golden_.eos};
            const std::vector<std::string>& all = eos ? with_eos : greedy;
            const std::vector<std::string> expected(all.begin(), all.begin() + static_cast<int64_t>(count));
            for (const Generated& rank : Generate(mesh, ranks, prompts, options))
              ASSERT_EQ(rank.texts, expected) << mesh.what << " " << ranks << " ranks, eos " << eos << summon;
          }
        }
      }
    }
  }
}

TEST_F(GenerateOnRanks, HybridAndTensorParallelGiveTheSame) {
  struct Row {
    Spread mesh;
    int ranks;
  };
  const Row rows[] = {{{"HYBRID_SHARD", kFull, 1, 2}, 4},
                      {{"tensor", std::nullopt, 2}, 2},
                      {{"tensor 4", std::nullopt, 4}, 4},
                      {{"tensor x DDP", std::nullopt, 2}, 4},
                      {{"tensor x FULL_SHARD", kFull, 2}, 4},
                      {{"tensor x SHARD_GRAD_OP", kGradOp, 2}, 4},
                      {{"tensor x FULL_SHARD of 3", kFull, 2}, 6},
                      {{"plan", std::nullopt, 2, 1, false, true}, 2},
                      {{"plan x FULL_SHARD", kFull, 2, 1, false, true}, 4}};
  for (const Row& row : rows) {
    for (const bool cache : {true, false}) {
      GenerateOptions options;
      options.eos_token_id = {golden_.eos};
      options.use_cache = cache;
      options.batch_size = 2;
      std::vector<std::string> first;
      for (const Generated& rank : Generate(row.mesh, row.ranks, golden_.prompts, options)) {
        ASSERT_EQ(rank.texts[2], TextOf(golden_.greedy[2])) << row.mesh.what << cache;
        ASSERT_EQ(rank.texts[1], TextOf(golden_.greedy[1]).substr(0, 7)) << row.mesh.what << cache;
        ASSERT_EQ(rank.texts[4], TextOf(golden_.greedy[4])) << row.mesh.what << cache;
      }
    }
  }
}

TEST_F(GenerateOnRanks, BeamsAndPenaltiesAreTheSameOnAnyNumberOfRanks) {
  const std::pair<Spread, int> rows[] = {{{"DDP", std::nullopt}, 2},
                                         {{"FULL_SHARD", kFull}, 3},
                                         {{"SHARD_GRAD_OP", kGradOp}, 2},
                                         {{"tensor x FULL_SHARD", kFull, 2}, 4}};
  for (const auto& [mesh, ranks] : rows) {
    for (const size_t i : {4, 8, 15}) {  // n-grams, beams of several lengths, all together
      const GoldenControl& golden = golden_.controlled[i];
      TokenLists expected = golden.tokens;
      for (std::vector<int64_t>& tokens : expected) {
        const std::vector<int64_t>& eos = golden.options.eos_token_id;
        if (std::find(eos.begin(), eos.end(), tokens.back()) != eos.end()) tokens.pop_back();
      }
      GenerateOptions options = golden.options;
      options.batch_size = 2;
      for (const Generated& rank : Generate(mesh, ranks, golden_.prompts, options))
        EXPECT_EQ(rank.texts, TextsOf(expected)) << mesh.what << " " << i;
    }
  }
}

TEST_F(GenerateOnRanks, EveryRankStreamsEveryText) {
  std::vector<std::string> streamed(3);
  GenerateOptions options;
  options.eos_token_id = {golden_.eos};
  thread_local std::string* own = nullptr;
  static std::atomic<int> next{0};
  next = 0;
  options.on_text = [&](size_t, absl::string_view piece) {
    if (own == nullptr) own = &streamed[static_cast<size_t>(next++)];
    absl::StrAppend(own, piece);
  };
  const std::vector<Generated> ranks = Generate({"FULL_SHARD", kFull}, 3, golden_.prompts, options);
  std::string all;
  for (const std::string& text : ranks[0].texts) all += text;
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].texts, ranks[0].texts);
    EXPECT_EQ(streamed[rank], all);
  }
}

TEST_F(GenerateOnRanks, SamplesAreTheSameOnAnyNumberOfRanks) {
  GenerateOptions options;
  options.sampling = {.do_sample = true, .temperature = 1.2, .top_k = 20, .top_p = 0.9, .seed = 4};
  const std::vector<std::string> one = Generate({"one", std::nullopt}, 1, golden_.prompts, options)[0].texts;
  for (const int ranks : {2, 3, 4}) {
    for (const Generated& rank : Generate({"FULL_SHARD", kFull}, ranks, golden_.prompts, options))
      EXPECT_EQ(rank.texts, one) << ranks;
  }
  for (const Generated& rank : Generate({"tensor", std::nullopt, 2}, 2, golden_.prompts, options))
    EXPECT_EQ(rank.texts, one);
}

TEST_F(GenerateOnRanks, ParametersInBfloat16GoThroughTheCache) {
  GenerateOptions options;
  for (const Generated& rank : Generate({"FULL_SHARD", kFull, 1, 1, true}, 2, golden_.prompts, options)) {
    for (size_t i = 0; i < rank.texts.size(); ++i) EXPECT_EQ(rank.texts[i].size(), 20);
  }
}

// There are 20 passes of a root and 3 blocks, or these once, plus the texts. In the first pass there is also one
// collective before each block, and one at the end, to agree on their order.
TEST_F(GenerateOnRanks, SummonedParametersAreGatheredOnce) {
  GenerateOptions options;
  EXPECT_EQ(Generate({"FULL_SHARD", kFull}, 2, golden_.prompts, options)[0].collectives, 20 * 4 + 1 + 4);
  options.summon_full_params = true;
  EXPECT_EQ(Generate({"FULL_SHARD", kFull}, 2, golden_.prompts, options)[0].collectives, 4 + 1);
  options.summon_full_params = false;
  EXPECT_EQ(Generate({"SHARD_GRAD_OP", kGradOp}, 2, golden_.prompts, options)[0].collectives, 4 + 1);
  EXPECT_EQ(Generate({"DDP", std::nullopt}, 2, golden_.prompts, options)[0].collectives, 1);
}

// A rank's part of the cache spares it the gathers of the whole sequence.
TEST_F(GenerateOnRanks, TensorParallelModelsHaveACache) {
  const Spread tensor{"tensor", std::nullopt, 2};
  GenerateOptions options;
  const int64_t with = Generate(tensor, 2, golden_.prompts, options)[0].collectives;
  options.use_cache = false;
  EXPECT_LT(with, Generate(tensor, 2, golden_.prompts, options)[0].collectives);
}

TEST_F(GenerateOnRanks, ShardedTrainingIsTheSameToTheBitWithTheCallback) {
  for (const int tensor : {1, 2}) {
    const Spread mesh{"FULL_SHARD", kFull, tensor};
    const auto train = [&](bool generate) {
      return TrainOnRanks(4, [&](int) {
        TrainerOptions options = Run(mesh);
        if (!generate) return options;
        GenerateCallback callback;
        callback.prompts = {"\x05", "\x09\x02"};
        callback.interval = Time::Batches(1);
        callback.options.max_new_tokens = 5;
        callback.options.eos_token_id = {1, 43};
        options.generate.push_back(std::move(callback));
        return options;
      });
    };
    const std::vector<RunResult> plain = train(false), with = train(true);
    for (size_t rank = 0; rank < with.size(); ++rank) {
      ASSERT_TRUE(with[rank].status.ok()) << with[rank].status;
      EXPECT_EQ(with[rank].losses, plain[rank].losses);
      EXPECT_EQ(LargestDifference(with[rank], plain[rank]), 0);
    }
  }
}

}  // namespace
}  // namespace composer
