// Tests what changes updates and averages where tensor parallelism splits the model: Schedule-Free AdamW, LAWA and
// cautious weight decay do what they do on one rank, also beside FSDP, and resume bit for bit or on one rank; Muon and
// NorMuon are refused. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/lawa.h"
#include "trainer/algorithms/optimisation/cautious_weight_decay.h"
#include "trainer/algorithms/schedule_free_adamw.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct SplitCase {
  const char* name;
  void (*change)(TrainerOptions& options);
  bool differs = true;  // in its losses from a run without it
};

// eps is large for the reason that MakeGptAdamW has.
const SplitCase kSplitCases[] = {
    {"schedule_free_adamw",
     [](TrainerOptions& options) { options.make_optimizer = ScheduleFreeAdamW(0.01, {.eps = 1e-3}); }},
    {"lawa",
     [](TrainerOptions& options) {
       options.algorithms.push_back(std::make_unique<Lawa>(LawaOptions{.k = 3, .interval = Time::Batches(2)}));
     },
     false},
    {"cautious_weight_decay", [](TrainerOptions& options) {
       options.make_optimizer = AdamW({.lr = 0.01, .weight_decay = 0.5}, {.eps = 1e-3});
       options.algorithms.push_back(std::make_unique<CautiousWeightDecay>());
     }}};

RunResult TrainSplit(const SplitCase& what, TensorRun run, int64_t batches, const std::string& folder) {
  run.batches = batches;
  run.folder = folder;
  run.change = [&what](TrainerOptions& options, int) { what.change(options); };
  return RunTensor(run)[0];
}

TEST(TensorParallelUpdates, AreThoseOfOneRank) {
  for (const SplitCase& what : kSplitCases) {
    const TempDir alone_folder;
    const RunResult alone = TrainSplit(what, {}, 10, alone_folder.path());
    ASSERT_TRUE(alone.status.ok()) << what.name << ": " << alone.status;
    if (what.differs) EXPECT_NE(alone.losses, RunTensor({})[0].losses) << what.name;
    for (const TensorRun& mesh : {TensorRun{.ranks = 2, .tensor = 2}, {.ranks = 4, .tensor = 2, .strategy = kFull}}) {
      SCOPED_TRACE(std::string(what.name) + " on " + std::to_string(mesh.ranks));
      const TempDir whole, parts, changing;
      const RunResult split = TrainSplit(what, mesh, 10, whole.path());
      ASSERT_TRUE(split.status.ok()) << split.status;
      EXPECT_LE(RelativeError(split, alone), 1e-5);
      ASSERT_EQ(split.eval_results.size(), alone.eval_results.size());
      for (size_t i = 0; i < alone.eval_results.size(); ++i)
        EXPECT_NEAR(split.eval_results[i].second, alone.eval_results[i].second, 1e-4);
      ExpectSavedAlike(whole.path(), alone_folder.path());
      ASSERT_TRUE(TrainSplit(what, mesh, 5, parts.path()).status.ok());
      const RunResult resumed = TrainSplit(what, mesh, 10, parts.path());
      ASSERT_TRUE(resumed.status.ok()) << resumed.status;
      EXPECT_FALSE(resumed.resumed_from.empty());
      EXPECT_EQ(LargestDifference(resumed, split), 0);
      ASSERT_TRUE(TrainSplit(what, mesh, 5, changing.path()).status.ok());
      EXPECT_LE(RelativeError(TrainSplit(what, {}, 10, changing.path()), alone), 1e-5) << "on one rank";
    }
  }
}

TEST(TensorParallelUpdates, MuonIsRefusedSinceItNeedsWholeMatrices) {
  for (const bool normuon : {false, true}) {
    TensorRun run{.ranks = 2, .tensor = 2};
    run.change = [&](TrainerOptions& options, int) { options.make_optimizer = normuon ? NorMuon() : Muon(); };
    const std::string message(RunTensor(run)[0].status.message());
    EXPECT_THAT(message, HasSubstr("optimizers: muon needs whole matrices, and sharding leaves a rank pieces of them"));
    EXPECT_THAT(message, HasSubstr("a tensor_parallel_degree of 1"));
  }
}

}  // namespace
}  // namespace composer
