// Tests parameters that are frozen and thawed while a run goes on: no gradient, no update, no weight decay, no drift of
// their averages, on one rank and several, sharded or not, and the same after a restart.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/ema_runs.h"
#include "tests/trainer/parallel/fsdp_runs.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct FreezingMesh {
  const char* name;
  int ranks;
  std::optional<ShardingStrategy> strategy;
  int replicate = 1;
  int virtual_shards = 0;
};
const FreezingMesh kFreezingMeshes[] = {
    {"1 rank", 1, std::nullopt},
    {"2 ranks", 2, std::nullopt},
    {"FULL_SHARD", 2, ShardingStrategy::kFullShard},
    {"SHARD_GRAD_OP", 2, ShardingStrategy::kShardGradOp},
    {"HYBRID_SHARD", 4, ShardingStrategy::kFullShard, 2},
    {"elastic", 2, std::nullopt, 1, 4},
    {"elastic FULL_SHARD", 2, ShardingStrategy::kFullShard, 1, 4},
};

// Freezes a block and the bias of the head at the end of batch 3, and thaws the bias at the end of batch 8. It keeps no
// state: a resumed run must have the flags from its checkpoint.
class FreezeAWhile final : public Algorithm {
 public:
  std::string name() const override { return "FreezeAWhile"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  bool Match(Event event, const State& state) const override {
    return state.timestamp.batch == 3 || state.timestamp.batch == 8;
  }
  absl::Status Apply(Event event, State& state, Logger& logger) override {
    const bool thaw = state.timestamp.batch == 8;
    for (const auto& item : state.model->named_parameters()) {
      if (item.key() == "head.bias") item.value().set_requires_grad(thaw);
      if (item.key().find("block2.") == 0 && !thaw) item.value().set_requires_grad(false);
    }
    return absl::OkStatus();
  }
};

bool IsFrozen(const std::string& name) { return name == "head.bias" || name.find("block2.") == 0; }

RunResult TrainFrozen(const FreezingMesh& mesh, int64_t batches, const std::string& folder, bool ema = false) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = OptionsOf(Case{});
    if (mesh.strategy) {
      options.fsdp.emplace().strategy = *mesh.strategy;
      options.fsdp->data_parallel_replicate_degree = mesh.replicate;
    }
    options.virtual_shards = mesh.virtual_shards;
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    options.save.save_interval = Time::Batches(100);
    options.algorithms.push_back(std::make_unique<FreezeAWhile>());
    if (ema) AddEma(options, HalfLife(Time::Batches(2)));
    return options;
  })[0];
}

TEST(Freezing, AFrozenParameterStaysAndAThawedOneMoves) {
  for (const FreezingMesh& mesh : kFreezingMeshes) {
    SCOPED_TRACE(mesh.name);
    const RunResult at3 = TrainFrozen(mesh, 3, ""), at8 = TrainFrozen(mesh, 8, ""), at10 = TrainFrozen(mesh, 10, "");
    ASSERT_TRUE(at10.status.ok()) << at10.status;
    int frozen = 0;
    for (size_t i = 0; i < at3.tensors.size(); ++i) {
      const auto& [name, tensor] = at3.tensors[i];
      frozen += IsFrozen(name) ? 1 : 0;
      EXPECT_EQ(tensor.equal(at8.tensors[i].second), IsFrozen(name)) << name;
      EXPECT_EQ(at8.tensors[i].second.equal(at10.tensors[i].second), name.find("block2.") == 0) << name;
    }
    EXPECT_GE(frozen, 5);
  }
}

TEST(Freezing, AResumedRunHasTheSameFlags) {
  for (const FreezingMesh& mesh : kFreezingMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir whole, parts;
    const RunResult undisturbed = TrainFrozen(mesh, 10, whole.path(), /*ema=*/true);
    for (const int64_t batches : {5, 7}) ASSERT_TRUE(TrainFrozen(mesh, batches, parts.path(), true).status.ok());
    RunResult resumed = TrainFrozen(mesh, 10, parts.path(), true);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    resumed.losses.insert(resumed.losses.begin(), undisturbed.losses.begin(), undisturbed.losses.begin() + 7);
    ExpectSameBits(resumed, undisturbed);
    EXPECT_TRUE(SameBits(NewestTensors(parts.path()), NewestTensors(whole.path())));
  }
}

TEST(Freezing, TheAverageOfAFrozenParameterDoesNotDrift) {
  for (const FreezingMesh& mesh : kFreezingMeshes) {
    SCOPED_TRACE(mesh.name);
    const TempDir early, late;
    ASSERT_TRUE(TrainFrozen(mesh, 4, early.path(), true).status.ok());
    ASSERT_TRUE(TrainFrozen(mesh, 7, late.path(), true).status.ok());
    const Tensors before = Below(NewestTensors(early.path()), "model/");
    const Tensors after = Below(NewestTensors(late.path()), "model/");
    ASSERT_FALSE(before.empty());
    for (const auto& [name, average] : before) EXPECT_EQ(average.equal(after.at(name)), IsFrozen(name)) << name;
  }
}

TEST(Freezing, WhatWasFrozenWhenTheOptimizerWasMadeCannotBeThawed) {
  for (const FreezingMesh& mesh : kFreezingMeshes) {
    SCOPED_TRACE(mesh.name);
    const RunResult result = TrainOnRanks(mesh.ranks, [&](int) {
      Case c;
      c.shape.frozen = true;
      TrainerOptions options = OptionsOf(c);
      if (mesh.strategy) options.fsdp.emplace().strategy = *mesh.strategy;
      if (mesh.strategy) options.fsdp->data_parallel_replicate_degree = mesh.replicate;
      options.virtual_shards = mesh.virtual_shards;
      AddCallback(options, {Event::kEpochStart}, [](State& state) {
        for (const at::Tensor& param : state.model->parameters()) param.set_requires_grad(true);
      });
      return options;
    })[0];
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << result.status;
    EXPECT_THAT(result.status.message(), HasSubstr(" requires a gradient now, but did not when the optimizer"));
    EXPECT_THAT(result.status.message(), HasSubstr("parameter block1.up.weight"));
  }
}

}  // namespace
}  // namespace composer
