// Tests tensor parallelism in the trainer: a mesh of ranks trains like one rank.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/callbacks/monitors/optimizer_monitor.h"
#include "trainer/core/model_sharding.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/parallel/norms/gradient_norm.h"
#include "trainer/parallel/tensor/tensor_rank_random.h"

namespace composer {
namespace {

using testing::HasSubstr;

// Expects one rank's result on every rank.
void ExpectSame(const std::vector<RunResult>& results, const RunResult& one, double tolerance) {
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(result.losses[i] / one.losses[i], 1, tolerance) << "step " << i;
    EXPECT_LE(RelativeError(result, one), tolerance);
    EXPECT_EQ(result.timestamp.sample, one.timestamp.sample);
    EXPECT_EQ(result.timestamp.token, one.timestamp.token);
    ASSERT_EQ(result.eval_results.size(), one.eval_results.size());
    for (size_t i = 0; i < one.eval_results.size(); ++i) {
      EXPECT_EQ(result.eval_results[i].first, one.eval_results[i].first);
      EXPECT_NEAR(result.eval_results[i].second / one.eval_results[i].second, 1, tolerance);
    }
  }
}

TEST(TensorParallelRun, AnyMeshTrainsAsOneRank) {
  struct Row {
    const char* what;
    TensorRun run;
  };
  const Row rows[] = {
      {"tensor alone", {.ranks = 2, .tensor = 2}},
      {"all heads apart", {.ranks = 4, .tensor = 4}},
      {"DDP", {.ranks = 4, .tensor = 2}},
      {"DDP, microbatches", {.ranks = 4, .tensor = 2, .microbatch = 1}},
      {"NO_SHARD", {.ranks = 4, .tensor = 2, .strategy = kNoShard}},
      {"SHARD_GRAD_OP", {.ranks = 4, .tensor = 2, .strategy = kGradOp}},
      {"FULL_SHARD", {.ranks = 4, .tensor = 2, .strategy = kFull}},
      {"FULL_SHARD, 3 data ranks", {.ranks = 6, .tensor = 2, .strategy = kFull, .microbatch = 1}},
      {"FULL_SHARD, recomputed", {.ranks = 4, .tensor = 2, .strategy = kFull, .checkpoint_activations = true}},
      {"HYBRID_SHARD", {.ranks = 8, .tensor = 2, .strategy = kFull, .replicate = 2}},
      {"FULL_SHARD of one data rank", {.ranks = 2, .tensor = 2, .strategy = kFull}},
  };
  for (const bool tied_head : {true, false}) {
    const RunResult one = RunTensor({.tied_head = tied_head})[0];
    ASSERT_EQ(one.losses.size(), 10);
    for (Row row : rows) {
      SCOPED_TRACE(testing::Message() << row.what << (tied_head ? ", tied" : ", untied"));
      row.run.tied_head = tied_head;
      ExpectSame(RunTensor(row.run), one, 1e-5);
    }
  }
}

TEST(TensorParallelRun, Bfloat16FollowsOneRank) {
  const RunResult one = RunTensor({.precision = Precision::kAmpBf16})[0];
  for (const std::optional<ShardingStrategy> strategy : {std::optional<ShardingStrategy>(), std::optional(kFull)})
    ExpectSame(RunTensor({.ranks = 4, .tensor = 2, .strategy = strategy, .precision = Precision::kAmpBf16}), one, 0.02);
}

// The norm of a split parameter is over the tensor ranks; that of one that all ranks have is counted once.
TEST(TensorParallelRun, NormsAreThoseOfTheWholeModel) {
  for (const double p : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    std::vector<double> expected, norms;
    const auto clip = [p](std::vector<double>& seen) {
      return [p, &seen](TrainerOptions& options, int rank) {
        AddCallback(options, {Event::kAfterTrainBatch}, [p, rank, &seen](State& state) {
          const double norm = ClipGradientsByNorm(state.model->parameters(), 0.05, state.sharding, p);
          if (rank == 0) seen.push_back(norm);
        });
      };
    };
    const RunResult one = RunTensor({.change = clip(expected)})[0];
    for (const std::optional<ShardingStrategy> strategy : {std::optional<ShardingStrategy>(), std::optional(kFull)}) {
      norms.clear();
      ExpectSame(RunTensor({.ranks = 4, .tensor = 2, .strategy = strategy, .change = clip(norms)}), one, 1e-5);
      ASSERT_EQ(norms.size(), expected.size());
      for (size_t i = 0; i < norms.size(); ++i) EXPECT_NEAR(norms[i] / expected[i], 1, 1e-5);
    }
  }
}

// What the monitor logs is about whole tensors, on every rank.
TEST(TensorParallelRun, TheOptimizerMonitorSeesTheWholeModel) {
  MetricHistory expected;
  const auto monitor = [](std::vector<MetricHistory*> histories) {
    return [histories](TrainerOptions& options, int rank) {
      options.callbacks.push_back(std::make_unique<OptimizerMonitor>(OptimizerMonitor::Options{.interval = 5}));
      if (static_cast<size_t>(rank) < histories.size())
        options.loggers.push_back(std::make_unique<InMemoryLogger>(histories[static_cast<size_t>(rank)]));
    };
  };
  ASSERT_TRUE(RunTensor({.change = monitor({&expected})})[0].status.ok());
  for (const TensorRun& mesh :
       {TensorRun{.ranks = 2, .tensor = 2}, TensorRun{.ranks = 4, .tensor = 2},
        TensorRun{.ranks = 4, .tensor = 2, .strategy = kFull}, TensorRun{.ranks = 3, .strategy = kFull}}) {
    MetricHistory first, second;  // the other ranks have no logger
    TensorRun run = mesh;
    run.change = monitor({&first, &second});
    ASSERT_TRUE(RunTensor(run)[0].status.ok());
    int norms = 0;
    for (const auto& [name, values] : expected.data) {
      if (name.rfind("l2_norm/", 0) != 0) continue;
      ++norms;
      for (const MetricHistory* seen : {&first, &second}) {
        const std::vector<double> ours = seen->Values(name), theirs = expected.Values(name);
        ASSERT_EQ(ours.size(), theirs.size()) << name;
        for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5 * theirs[i] + 1e-8) << name;
      }
    }
    EXPECT_GT(norms, 100);
  }
}

// Each rank may ask for a stop, even one that does not count the samples.
TEST(TensorParallelRun, AStopOfOneRankEndsAll) {
  for (const int ranks : {2, 4}) {
    const auto results = RunTensor({.ranks = ranks, .tensor = 2, .change = [](TrainerOptions& options, int rank) {
                                      AddCallback(options, {Event::kBatchEnd}, [rank](State& state) {
                                        if (rank == 1 && state.timestamp.batch == 3) state.StopTraining();
                                      });
                                    }});
    for (const RunResult& result : results) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.losses.size(), 4);
    }
  }
}

TEST(TensorParallelRun, MistakesAreNamed) {
  const auto error = [](const TensorRun& run) { return std::string(RunTensor(run)[0].status.message()); };
  EXPECT_THAT(error({.ranks = 3, .tensor = 2}),
              HasSubstr("tensor_parallel_degree: 2 does not divide the number of ranks, 3"));
  EXPECT_THAT(error({.ranks = 4, .tensor = 2, .strategy = kFull, .replicate = 3}),
              HasSubstr("data_parallel_replicate_degree"));
  const auto change = [](auto fn) { return [fn](TrainerOptions& options, int) { fn(options); }; };
  EXPECT_THAT(error({.ranks = 2, .tensor = 2, .change = change([](auto& o) { o.split_model = nullptr; })}),
              HasSubstr("split_model"));
  EXPECT_THAT(error({.ranks = 2, .tensor = 2, .change = change([](auto& o) {
                                                o.device_train_microbatch_size = kAutoMicrobatch;
                                              })}),
              HasSubstr("auto does not go with tensor_parallel_degree"));
  EXPECT_THAT(error({.ranks = 2, .tensor = 2, .change = change([](auto& o) { o.virtual_shards = 2; })}),
              HasSubstr("elastic does not go with tensor_parallel_degree"));
}

// Ranks of a group draw different numbers inside the scope, and the same ones after it.
TEST(TensorRankRandomScope, RanksDifferInsideAndAgreeAfter) {
  ThreadsExchange exchange(2);
  std::vector<at::Tensor> inside, after;
  for (const int rank : {0, 1, 0}) {
    const ThreadsCommunicator group(exchange, rank);
    torch::manual_seed(3);
    {
      const TensorRankRandomScope scope(group);
      inside.push_back(torch::rand({4}));
    }
    after.push_back(torch::rand({4}));
    const TensorRankRandomScope again(group);
    EXPECT_FALSE(torch::equal(torch::rand({4}), inside.back())) << "each forward has numbers of its own";
  }
  EXPECT_FALSE(torch::equal(inside[0], inside[1]));
  EXPECT_TRUE(torch::equal(inside[0], inside[2]));
  EXPECT_TRUE(torch::equal(after[0], after[1]));
}

}  // namespace
}  // namespace composer
