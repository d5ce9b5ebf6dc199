// Tests the memory plan's decisions and text.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "trainer/memory_dry_run.h"
#include "trainer/parallel/fsdp/memory_plan.h"
#include "trainer/step_shape.h"

namespace composer {
namespace {

using testing::HasSubstr;

StepShape ShapeOf(int world, int64_t global, const std::function<void(TrainerOptions&)>& change) {
  TrainerOptions options;
  options.train.global_train_batch_size = global;
  change(options);
  const absl::StatusOr<StepShape> shape = StepShapeOf(options, world);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return shape.value_or(StepShape());
}

TEST(StepShape, FollowsFromTheOptions) {
  StepShape shape = ShapeOf(3, 32, [](TrainerOptions&) {});
  EXPECT_FALSE(shape.sharded);
  EXPECT_EQ(shape.rank_rows, 11);
  EXPECT_EQ(shape.rows, 11);
  EXPECT_EQ(shape.passes, 1);
  shape = ShapeOf(4, 32, [](TrainerOptions& options) {
    options.fsdp.emplace().data_parallel_replicate_degree = 2;
    options.device_train_microbatch_size = 3;
  });
  EXPECT_TRUE(shape.sharded);
  EXPECT_EQ(shape.mesh.shard, 2);
  EXPECT_EQ(shape.mesh.replicate, 2);
  EXPECT_EQ(shape.rank_rows, 8);
  EXPECT_EQ(shape.rows, 3);
  EXPECT_EQ(shape.passes, 3);
  EXPECT_EQ(shape.leaves, 0);
  shape = ShapeOf(2, 0, [](TrainerOptions& options) {
    options.train.device_train_batch_size = 5;
    options.device_train_microbatch_size = kAutoMicrobatch;
  });
  EXPECT_EQ(shape.rank_rows, 5);
  EXPECT_EQ(shape.rows, 5);
  shape = ShapeOf(2, 32, [](TrainerOptions& options) {
    options.virtual_shards = 4;
    options.device_train_microbatch_size = 5;
  });
  EXPECT_EQ(shape.leaves, 8);
  EXPECT_EQ(shape.passes, 4);
  EXPECT_EQ(shape.rows, 4);
}

TEST(RowsOfDryRun, AreFewAndTwoSizes) {
  for (int64_t rows = 1; rows < 500; ++rows) {
    const auto [small, large] = RowsOfDryRun(rows);
    EXPECT_LE(large, std::max<int64_t>(3, rows / 8)) << rows;
    EXPECT_GE(small, std::min<int64_t>(2, rows)) << rows;
    if (rows > 3) EXPECT_LT(small, large) << rows;
    if (rows <= 3) EXPECT_EQ(small, rows);
    if (rows <= 3) EXPECT_EQ(large, rows);
  }
}

PlannedStep AfterDryRun(int64_t peak, int64_t otherwise, bool checkpoints) {
  PlannedStep step;
  step.peak = peak;
  step.batches = 1'000'000;
  step.rows = 8;
  step.passes = 2;
  step.checkpoints = checkpoints;
  step.peak_otherwise = otherwise;
  return step;
}

TEST(MemoryText, AddsUp) {
  PlannedMemory memory{.parameters = 4'000'000, .gradients = 4'000'000, .optimizer = 8'000'000, .buffers = 3'000'000};
  memory.one_gradient = 500'000;
  EXPECT_EQ(
      MemoryText(memory, {}),
      "  memory of a rank: 19.50 MB = parameters 4.00 MB + gradients 4.00 MB + optimizer 8.00 MB + buffers 3.00 MB + "
      "one gradient 0.50 MB; activations come on top\n");
  EXPECT_EQ(
      MemoryText(memory, AfterDryRun(50'000'000, 30'000'000, false)),
      "  memory of a rank: 50.00 MB = parameters 4.00 MB + gradients 4.00 MB + optimizer 8.00 MB + buffers 3.00 MB + "
      "batches 1.00 MB + activations 30.00 MB\n"
      "  activations: of 2 microbatches of 8 samples a step, without activation_checkpointing; with it a rank would "
      "take 30.00 MB, 20.00 MB less\n");
  memory.partial_sums = 4'000'000;
  memory.state_on_host = true;
  EXPECT_EQ(ActivationBytes(memory, AfterDryRun(50'000'000, 0, true)), 46'000'000);
  EXPECT_EQ(TotalBytes(memory, AfterDryRun(50'000'000, 0, true)), 70'000'000);
  const std::string offloaded = MemoryText(memory, AfterDryRun(50'000'000, 80'000'000, true));
  EXPECT_THAT(offloaded, HasSubstr("partial sums 4.00 MB + buffers"));
  EXPECT_THAT(offloaded, HasSubstr("; without it a rank would take 100.00 MB, 30.00 MB more\n"));
}

}  // namespace
}  // namespace composer
