// A tensor-parallel run's checkpoint holds whole tensors: a run resumes with any degree, with or without FSDP.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"

namespace composer {
namespace {

TensorRun Until(TensorRun run, int64_t batches, const std::string& folder) {
  run.batches = batches;
  run.folder = folder;
  return run;
}

TEST(TensorParallelCheckpoint, HasTheTensorsOfTheWholeModel) {
  const TempDir whole;
  ASSERT_TRUE(RunTensor(Until({}, 5, whole.path()))[0].status.ok());
  const TensorRun runs[] = {{.ranks = 2, .tensor = 2},
                            {.ranks = 4, .tensor = 2},
                            {.ranks = 4, .tensor = 2, .strategy = kFull},
                            {.ranks = 8, .tensor = 2, .strategy = kFull, .replicate = 2}};
  for (const TensorRun& run : runs) {
    SCOPED_TRACE(testing::Message() << run.ranks << " ranks, sharded " << run.strategy.has_value());
    const TempDir folder;
    const auto results = RunTensor(Until(run, 5, folder.path()));
    ASSERT_TRUE(results[0].status.ok()) << results[0].status;
    ExpectSavedAlike(folder.path(), whole.path());
  }
}

TEST(TensorParallelCheckpoint, AnyDegreeGoesOn) {
  const TensorRun one{}, pair{.ranks = 2, .tensor = 2}, four{.ranks = 4, .tensor = 4}, ddp{.ranks = 4, .tensor = 2},
      mesh{.ranks = 4, .tensor = 2, .strategy = kFull}, zero2{.ranks = 4, .tensor = 2, .strategy = kGradOp},
      sharded{.ranks = 4, .strategy = kFull};
  struct Row {
    TensorRun from, to;
  };
  const Row rows[] = {{pair, one}, {one, pair},  {mesh, sharded}, {sharded, mesh},
                      {ddp, one},  {mesh, four}, {four, zero2},   {zero2, pair}};
  const TempDir alone;
  const RunResult undisturbed = RunTensor(Until(one, 10, alone.path()))[0];
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.from.ranks << " ranks, tensor " << row.from.tensor << " -> " << row.to.ranks
                                    << " ranks, tensor " << row.to.tensor);
    const TempDir folder;
    const auto first = RunTensor(Until(row.from, 5, folder.path()));
    ASSERT_TRUE(first[0].status.ok()) << first[0].status;
    for (const RunResult& result : RunTensor(Until(row.to, 10, folder.path()))) {
      ASSERT_TRUE(result.status.ok()) << result.status;
      EXPECT_FALSE(result.resumed_from.empty());
      EXPECT_EQ(result.losses.size(), 5);
      EXPECT_LE(RelativeError(result, undisturbed), 1e-5);
    }
  }
}

TEST(TensorParallelCheckpoint, TheSameMeshGoesOnBitForBit) {
  const TensorRun mesh{.ranks = 4, .tensor = 2, .strategy = kFull};
  const TempDir one, two;
  const auto undisturbed = RunTensor(Until(mesh, 10, one.path()));
  ASSERT_TRUE(RunTensor(Until(mesh, 5, two.path()))[0].status.ok());
  const auto resumed = RunTensor(Until(mesh, 10, two.path()));
  ASSERT_TRUE(resumed[0].status.ok()) << resumed[0].status;
  EXPECT_EQ(LargestDifference(resumed[0], undisturbed[0]), 0);
}

}  // namespace
}  // namespace composer
