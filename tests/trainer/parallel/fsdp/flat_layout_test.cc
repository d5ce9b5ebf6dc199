// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/flat_layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/parallel/fsdp/shard_plan.h"

namespace composer {
namespace {

FlatLayout Layout(std::vector<std::vector<int64_t>> shapes, int ranks) {
  std::vector<FlatParam> params;
  for (auto& shape : shapes) params.push_back({"p" + std::to_string(params.size()), std::move(shape)});
  return MakeFlatLayout(std::move(params), ranks);
}

TEST(FlatLayout, ParametersAreAlignedAndEveryElementHasOneOwner) {
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    const FlatLayout layout = Layout({{5, 7}, {}, {0, 3}, {33}, {2, 3, 4}, {1000}}, ranks);
    EXPECT_EQ(layout.shard_numel % kFlatAlignment, 0);
    EXPECT_EQ(layout.param_numel(), 35 + 1 + 0 + 33 + 24 + 1000);
    EXPECT_GE(layout.numel(), layout.param_numel());
    std::vector<int> owners(static_cast<size_t>(layout.numel()), 0);
    for (size_t p = 0; p < layout.params.size(); ++p) {
      EXPECT_EQ(layout.params[p].offset % kFlatAlignment, 0);
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const FlatPiece piece = layout.PieceOf(p, rank);
        if (piece.numel() == 0) continue;
        EXPECT_EQ(piece.begin, next) << "pieces follow each other by rank";
        next = piece.end;
        for (int64_t i = 0; i < piece.numel(); ++i)
          ++owners[static_cast<size_t>(rank * layout.shard_numel + piece.shard_offset + i)];
        EXPECT_EQ(rank * layout.shard_numel + piece.shard_offset, layout.params[p].offset + piece.begin);
        EXPECT_LE(piece.shard_offset + piece.numel(), layout.shard_numel);
      }
      EXPECT_EQ(next, layout.params[p].numel);
    }
    for (const auto& [begin, end] : layout.Gaps()) {
      for (int64_t i = begin; i < end; ++i) ++owners[static_cast<size_t>(i)];
    }
    for (const int count : owners) EXPECT_EQ(count, 1);
  }
}

TEST(FlatLayout, NoParametersIsAnEmptyShard) {
  const FlatLayout layout = Layout({}, 4);
  EXPECT_EQ(layout.numel(), 0);
  EXPECT_TRUE(layout.Gaps().empty());
}

PlannedUnit Unit(const std::string& name, int64_t bytes, int ranks) {
  return {name, {{bytes / 4, bytes / 4, bytes, bytes, bytes / ranks}}};
}

TEST(ShardPlan, MemoryAndBytesOnTheWire) {
  ShardPlan plan;
  plan.degrees = {2, 1};
  plan.units = {Unit("", 1000, 2), Unit("a", 400, 2), Unit("b", 400, 2), Unit("c", 400, 2)};
  plan.optimizer_bytes = 2200;
  plan.options.backward_prefetch = BackwardPrefetch::kNone;
  PlannedMemory memory = MemoryOf(plan);
  EXPECT_EQ(memory.parameters, 1100);
  EXPECT_EQ(memory.gradients, 1100);
  EXPECT_EQ(memory.optimizer, 2200);
  // The root and its gradients, and one whole unit; while its gradients are computed, those of the previous one are in
  // flight.
  EXPECT_EQ(memory.buffers, 2000 + 400 + 2 * 400);
  EXPECT_EQ(WireBytesOf(plan), (3 * 1200 + 2 * 1000) / 2);
  plan.options.backward_prefetch = BackwardPrefetch::kPre;
  EXPECT_EQ(MemoryOf(plan).buffers, 2000 + 2 * 400 + 2 * 400);
  plan.options.strategy = ShardingStrategy::kShardGradOp;
  EXPECT_EQ(MemoryOf(plan).buffers, 2000 + 3 * 400 + 400) << "a unit that is done gives its memory to the next sum";
  EXPECT_EQ(WireBytesOf(plan), (2 * 1200 + 2 * 1000) / 2);
  plan.degrees.replicate = 2;
  EXPECT_EQ(WireBytesOf(plan), (2 * 1200 + 2 * 1000) / 2 + 1100);
  EXPECT_NE(PlanText(plan).find("_HYBRID_SHARD_ZERO2 over 2 ranks x 2 replicas, 4 units"), std::string::npos);
}

TEST(ResolveDegrees, FillsInAndRefuses) {
  FsdpOptions options;
  MeshDegrees degrees;
  ASSERT_TRUE(ResolveDegrees(options, 6, degrees).ok());
  EXPECT_EQ(degrees.shard, 6);
  options.data_parallel_replicate_degree = 3;
  ASSERT_TRUE(ResolveDegrees(options, 6, degrees).ok());
  EXPECT_EQ(degrees.shard, 2);
  EXPECT_EQ(degrees.replicate, 3);
  EXPECT_EQ(ResolveDegrees(options, 4, degrees).code(), absl::StatusCode::kInvalidArgument);
  options.data_parallel_shard_degree = 4;
  EXPECT_EQ(ResolveDegrees(options, 6, degrees).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace composer
