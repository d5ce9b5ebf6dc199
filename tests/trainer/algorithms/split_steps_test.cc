// Tests algorithms that change a step under tensor parallelism: gradient clipping, SAM, and clipping within SAM.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/algorithms/step_algorithms.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"

namespace composer {
namespace {

struct SplitMesh {
  const char* what;
  int ranks;
  int tensor;
  std::optional<ShardingStrategy> strategy;
};

enum class HowSplit { kByModel, kByPlan };

RunResult TrainSplit(const SplitMesh& mesh, const StepAlgorithm& algorithm, HowSplit how = HowSplit::kByModel) {
  const FirstWeights first(true);
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = OptionsOf({.tensor = mesh.tensor, .strategy = mesh.strategy}, first);
    AddStepAlgorithm(options, algorithm);
    options.make_optimizer = DecoupledSGDW(0.1, {.momentum = 0.9});
    if (how == HowSplit::kByPlan) {
      options.layer_plan = {{"*.attn.qkv", ParallelStyle::kColwise},
                            {"*.attn.proj", ParallelStyle::kRowwise},
                            {"*.mlp.fc", ParallelStyle::kColwise},
                            {"*.mlp.proj", ParallelStyle::kRowwise}};
    }
    return options;
  })[0];
}

const std::pair<const char*, StepAlgorithm> kSplitSteps[] = {
    {"norm", {.clipping = ClippingType::kNorm, .threshold = 0.2}},
    {"value", {.clipping = ClippingType::kValue, .threshold = 0.01}},
    {"adaptive", {.clipping = ClippingType::kAdaptive, .threshold = 0.05}},
    {"sam", {.sam = SamOptions{.rho = 0.3, .interval = 2}}},
    {"norm in sam", {.clipping = ClippingType::kNorm, .threshold = 0.2, .sam = SamOptions{.rho = 0.3}}},
    {"value in sam", {.clipping = ClippingType::kValue, .threshold = 0.01, .sam = SamOptions{.rho = 0.3}}},
};

// SAM's direction is that of each data rank's own samples unless parameters are sharded, so a mesh is compared with one
// that has as many data ranks.
TEST(StepAlgorithmsUnderTensorParallelism, AreThoseOfTheSameDataRanks) {
  const std::pair<SplitMesh, SplitMesh> meshes[] = {
      {{"tensor alone", 2, 2, std::nullopt}, {"", 1, 1, std::nullopt}},
      {{"DDP", 4, 2, std::nullopt}, {"", 2, 1, std::nullopt}},
      {{"FULL_SHARD", 4, 2, kFull}, {"", 2, 1, kFull}},
      {{"SHARD_GRAD_OP", 4, 2, kGradOp}, {"", 2, 1, kGradOp}},
  };
  for (const auto& [name, algorithm] : kSplitSteps) {
    for (const auto& [mesh, whole] : meshes) {
      const RunResult expected = TrainSplit(whole, algorithm);
      ASSERT_TRUE(expected.status.ok()) << expected.status;
      EXPECT_GT(RelativeError(expected, TrainSplit(whole, {})), 1e-3) << name << " has an effect";
      for (const HowSplit how : {HowSplit::kByModel, HowSplit::kByPlan}) {
        SCOPED_TRACE(testing::Message() << name << ", " << mesh.what << (how == HowSplit::kByPlan ? ", plan" : ""));
        const RunResult split = TrainSplit(mesh, algorithm, how);
        ASSERT_TRUE(split.status.ok()) << split.status;
        EXPECT_LE(RelativeError(split, expected), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace composer
