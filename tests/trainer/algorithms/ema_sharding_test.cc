// Tests EMA of sharded models: each rank averages its pieces. The averages are the same on any mesh, no collective is
// added, memory is 1/N, and any mesh resumes from the checkpoints. Ranks are threads.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "checkpoint/format/diff.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/ema_runs.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"

namespace composer {
namespace {

using testing::IsEmpty;
using testing::Not;

struct EmaMesh {
  const char* name;
  int ranks;
  ShardingStrategy strategy;
  int replicate = 1;
};
constexpr ShardingStrategy kNoShard = ShardingStrategy::kNoShard, kGradOp = ShardingStrategy::kShardGradOp,
                           kFull = ShardingStrategy::kFullShard;
constexpr EmaMesh kMeshes[] = {
    {"NO_SHARD 1", 1, kNoShard},     {"NO_SHARD 2", 2, kNoShard},         {"FULL_SHARD 1", 1, kFull},
    {"FULL_SHARD 2", 2, kFull},      {"FULL_SHARD 4", 4, kFull},          {"SHARD_GRAD_OP 2", 2, kGradOp},
    {"SHARD_GRAD_OP 4", 4, kGradOp}, {"HYBRID_SHARD 2 x 2", 4, kFull, 2}, {"_HYBRID_SHARD_ZERO2", 4, kGradOp, 2}};

// The model has frozen and shared parameters, and is evaluated every 3 batches.
TrainerOptions EmaRun(const EmaMesh& mesh, int64_t batches, const std::string& folder) {
  Case c;
  c.shape.frozen = c.shape.tied = true;
  TrainerOptions options = OptionsOf(c);
  options.fsdp.emplace().strategy = mesh.strategy;
  options.fsdp->data_parallel_replicate_degree = mesh.replicate;
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(24, 8, 4, 0, 3);
  evaluator.batch_size = 2;
  evaluator.eval_interval = Time::Batches(3);
  evaluator.metric_names = {"CrossEntropy"};
  options.evaluators.push_back(evaluator);
  AddEma(options, HalfLife(Time::Batches(5)));
  return options;
}

using Change = std::function<void(TrainerOptions&)>;

RunResult TrainOn(const EmaMesh& mesh, int64_t batches, const std::string& folder, const Change& change = {}) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = EmaRun(mesh, batches, folder);
    if (change) change(options);
    return options;
  })[0];
}

double Distance(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double difference = 0, norm = 0;
  for (const auto& [name, tensor] : b) {
    if (a.count(name) == 0 || a.at(name).sizes() != tensor.sizes()) return INFINITY;
    difference += (a.at(name).to(at::kDouble) - tensor.to(at::kDouble)).square().sum().item<double>();
    norm += tensor.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

TEST(EmaSharding, AResumedRunEndsAsOneThatWasNotStopped) {
  for (const EmaMesh& mesh : kMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir undisturbed;
    ASSERT_TRUE(TrainOn(mesh, 10, undisturbed.path()).status.ok());
    const StateDict expected = NewestCheckpoint(undisturbed.path());
    ASSERT_EQ(expected.small.count("algorithms/EMA"), 1u);
    for (const int64_t batch : {1, 5, 7}) {
      const TempDir disturbed;
      ASSERT_TRUE(TrainOn(mesh, batch, disturbed.path()).status.ok());
      const RunResult resumed = TrainOn(mesh, 10, disturbed.path());
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_EQ(resumed.losses.size(), static_cast<size_t>(10 - batch));
      EXPECT_THAT(DiffStates(expected, NewestCheckpoint(disturbed.path())), IsEmpty()) << "stopped at " << batch;
    }
  }
}

TEST(EmaSharding, TheAveragesAreThoseOfOneRank) {
  const TempDir one;
  const RunResult alone = TrainOn(kMeshes[0], 10, one.path());
  ASSERT_TRUE(alone.status.ok()) << alone.status;
  const Tensors expected = NewestTensors(one.path());
  // Frozen parameters have no average; shared ones are under both names, as in the model.
  EXPECT_EQ(expected.count("algorithms/EMA/block1.up.weight"), 0u);
  EXPECT_EQ(expected.count("algorithms/EMA/block2.tied"), 1u);
  EXPECT_GT(Distance(Below(expected, "algorithms/EMA/"), Below(expected, "model/")), 0.001);
  for (const EmaMesh& mesh : kMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir folder;
    const RunResult result = TrainOn(mesh, 10, folder.path());
    ASSERT_TRUE(result.status.ok()) << result.status;
    const Tensors saved = NewestTensors(folder.path());
    for (const char* part : {"model/", "algorithms/EMA/"})
      EXPECT_LE(Distance(Below(saved, part), Below(expected, part)), 1e-6) << part;
    EXPECT_NEAR(result.eval_results.at(0).second, alone.eval_results.at(0).second, 1e-6);
  }
}

TEST(EmaSharding, GoesOnWithAnotherStrategyOnAnotherNumberOfRanks) {
  const TempDir one, folder;
  ASSERT_TRUE(TrainOn(kMeshes[0], 10, one.path()).status.ok());
  const EmaMesh meshes[] = {{"", 2, kFull}, {"", 3, kGradOp}, {"", 1, kNoShard}, {"", 4, kFull, 2}};
  int64_t batches = 3;
  for (const EmaMesh& mesh : meshes) {
    const RunResult result = TrainOn(mesh, batches, folder.path());
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.resumed_from.empty(), batches == 3);
    batches = std::min<int64_t>(10, batches + 3);
  }
  const Tensors expected = NewestTensors(one.path()), got = NewestTensors(folder.path());
  for (const char* part : {"model/", "algorithms/EMA/"})
    EXPECT_LE(Distance(Below(got, part), Below(expected, part)), 2e-6) << part;
}

TEST(EmaSharding, ElasticRunsHaveTheSameBitsOnEveryMesh) {
  const Change elastic = [](TrainerOptions& options) {
    options.virtual_shards = 8;
    options.device_train_microbatch_size = 1;
  };
  const TempDir one;
  ASSERT_TRUE(TrainOn(kMeshes[0], 10, one.path(), elastic).status.ok());
  const StateDict expected = NewestCheckpoint(one.path());
  for (const EmaMesh& mesh : kMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir folder;
    const RunResult result = TrainOn(mesh, 10, folder.path(), elastic);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(DiffStates(expected, NewestCheckpoint(folder.path())), IsEmpty());
  }
  const TempDir changing;
  ASSERT_TRUE(TrainOn({"", 4, kFull}, 3, changing.path(), elastic).status.ok());
  ASSERT_TRUE(TrainOn({"", 2, kGradOp}, 6, changing.path(), elastic).status.ok());
  ASSERT_TRUE(TrainOn({"", 1, kNoShard}, 8, changing.path(), elastic).status.ok());
  ASSERT_TRUE(TrainOn({"", 4, kFull, 2}, 10, changing.path(), elastic).status.ok());
  EXPECT_THAT(DiffStates(expected, NewestCheckpoint(changing.path())), IsEmpty());
}

int64_t BytesKept(const State& state) {
  int64_t bytes = 0;
  for (const KeptTensor& kept : state.algorithms.at(0)->tensors()) bytes += static_cast<int64_t>(kept.tensor.nbytes());
  return bytes;
}

TEST(EmaSharding, CostsItsShareOfMemoryAndNoCollective) {
  int64_t whole = 0;
  TrainOn(kMeshes[0], 2, "", [&](TrainerOptions& options) {
    AddCallback(options, {Event::kFitEnd}, [&](State& state) { whole = BytesKept(state); });
  });
  ASSERT_GT(whole, 0);
  for (const int ranks : {2, 4}) {
    std::atomic<int64_t> sum = 0, largest = 0;
    const auto with = TrainOn({"", ranks, kFull}, 4, "", [&](TrainerOptions& options) {
      AddCallback(options, {Event::kFitEnd}, [&](State& state) {
        const int64_t bytes = BytesKept(state);
        sum += bytes;
        for (int64_t seen = largest; seen < bytes && !largest.compare_exchange_weak(seen, bytes);) {
        }
      });
    });
    EXPECT_EQ(sum, whole);
    EXPECT_LE(largest, whole / ranks * 3 / 2) << "shards are equal, but for what fills the last of each block";
    const auto without =
        TrainOn({"", ranks, kFull}, 4, "", [](TrainerOptions& options) { options.algorithms.clear(); });
    EXPECT_EQ(with.num_collectives, without.num_collectives);
    EXPECT_EQ(with.losses, without.losses);
  }
}

TEST(EmaSharding, OfTensorParallelModelsToo) {
  const auto run = [](int ranks, int tensor, std::optional<ShardingStrategy> strategy, int64_t batches,
                      const std::string& folder) {
    TensorRun tensor_run{.ranks = ranks, .tensor = tensor, .strategy = strategy, .batches = batches, .folder = folder};
    tensor_run.change = [](TrainerOptions& options, int) { AddEma(options, HalfLife(Time::Batches(5))); };
    return RunTensor(tensor_run)[0];
  };
  const TempDir one;
  ASSERT_TRUE(run(1, 1, std::nullopt, 10, one.path()).status.ok());
  const Tensors expected = NewestTensors(one.path());
  for (const int ranks : {2, 4}) {
    const TempDir undisturbed, disturbed, changing;
    const auto strategy = ranks == 4 ? std::optional(kFull) : std::nullopt;
    const RunResult result = run(ranks, 2, strategy, 10, undisturbed.path());
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_TRUE(run(ranks, 2, strategy, 5, disturbed.path()).status.ok());
    ASSERT_TRUE(run(ranks, 2, strategy, 10, disturbed.path()).status.ok());
    EXPECT_THAT(DiffStates(NewestCheckpoint(undisturbed.path()), NewestCheckpoint(disturbed.path())), IsEmpty());
    ASSERT_TRUE(run(ranks, 2, strategy, 5, changing.path()).status.ok());
    const RunResult alone = run(1, 1, std::nullopt, 10, changing.path());
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    EXPECT_THAT(alone.resumed_from, Not(IsEmpty()));
    for (const std::string& folder : {undisturbed.path(), changing.path()}) {
      const Tensors saved = NewestTensors(folder);
      for (const char* part : {"model/", "algorithms/EMA/"})
        EXPECT_LE(Distance(Below(saved, part), Below(expected, part)), 1e-5) << part;
    }
  }
}

}  // namespace
}  // namespace composer
