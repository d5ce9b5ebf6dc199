// Several users compete for one folder of checkpoints: launches of one run, and other runs.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/core/communicator.h"
#include "trainer/resume/run_checkpoints.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainerOptions SharedRun(const TempDir& dir, const std::string& run = "run") {
  TrainerOptions options = SmallRun();
  options.run_name = run;
  options.run_folder = dir.Path(run);
  options.save.save_folder = dir.Path("checkpoints");
  options.save.save_interval = Time::Batches(2);
  return options;
}

// Regression test for M4, and for a .lock that was removed by hand: both launches used to end because of what the other
// deleted.
TEST(SharedFolder, ALaterLaunchOfTheRunTakesOverAndTheEarlierOneSavesNoMore) {
  const TempDir dir;
  const RunResult alone = [] {
    TrainerOptions options = SmallRun();
    return Train(std::move(options));
  }();
  RunResult later;
  TrainerOptions first = SharedRun(dir);
  first.save.save_async = false;
  AddCallback(first, {Event::kBatchEnd}, [&](State& state) {
    if (state.timestamp.batch == 5) later = Train(SharedRun(dir));
  });
  const RunResult earlier = Train(std::move(first));
  EXPECT_EQ(earlier.status.code(), absl::StatusCode::kFailedPrecondition) << earlier.status;
  EXPECT_THAT(std::string(earlier.status.message()), HasSubstr("a later launch of this run"));
  ASSERT_TRUE(later.status.ok()) << later.status;
  EXPECT_EQ(later.resumed_from, dir.Path("checkpoints/ep0-ba4"));
  EXPECT_EQ(LargestDifference(later, alone), 0);
  EXPECT_THAT(Checkpoints(dir.Path("checkpoints")),
              ElementsAre("ep0-ba2", "ep0-ba4", "ep1-ba6", "ep1-ba8", "ep1-ba10"));
}

TEST(SharedFolder, AnEndedRunLeavesItFree) {
  const TempDir dir;
  ASSERT_TRUE(Train(SharedRun(dir)).status.ok());
  TrainerOptions other = SharedRun(dir, "other");
  other.save.save_overwrite = true;
  other.save.autoresume = false;
  const absl::Time began = absl::Now();
  EXPECT_TRUE(Train(std::move(other)).status.ok());
  EXPECT_LT(absl::Now() - began, kLeaseSilence / 2);
}

TEST(SharedFolder, RanksOfALaterGenerationFollowTheLast) {
  const TempDir dir;
  const auto generation = [&](uint64_t number) {
    return [&dir, number](int rank) {
      TrainerOptions options = SharedRun(dir);
      options.launch = {absl::StrCat("launcher-", rank), number};
      options.max_duration = Time::Batches(static_cast<int64_t>(4 * number));
      return options;
    };
  };
  for (const uint64_t number : {1, 2}) {
    for (const RunResult& result : TrainOnRanks(2, generation(number)))
      EXPECT_TRUE(result.status.ok()) << result.status;
  }
  EXPECT_THAT(Checkpoints(dir.Path("checkpoints")), testing::Contains("ep1-ba8"));
}

// Regression test for R8: the next save that was due was written to a store that was gone.
TEST(BestEffort, AfterAFailedSaveNothingMoreIsWritten) {
  struct Counts {
    int puts = 0;
    bool gone = false;
  };
  struct Failing final : FaultStore {
    Failing(ObjectStore& inner, Counts& shared) : FaultStore(inner), counts(shared) {}
    ~Failing() override { counts.gone = true; }
    absl::Status Put(const std::string& key, Pieces pieces) override {
      ++counts.puts;
      return absl::UnavailableError("away");
    }
    Counts& counts;
  };
  MemoryStore memory;
  Counts counts;
  const auto trainer = Trainer::Create(SmallRun()).value();
  LocalCommunicator communicator;
  Supervision supervision;
  SaveOptions save;
  save.save_folder = "memory";
  save.save_interval = Time::Batches(1);
  save.best_effort = true;
  save.open_store = [&](const std::string&) { return std::make_shared<Failing>(memory, counts); };
  {
    RunCheckpoints checkpoints(save, communicator, nullptr, supervision, std::make_shared<SaveThread>());
    State& state = trainer->state();
    ASSERT_TRUE(checkpoints.Open(state).ok());
    checkpoints.Save(state);
    state.timestamp.batch = 1;
    EXPECT_TRUE(checkpoints.IsDue(Event::kBatchCheckpoint, state));
    checkpoints.Save(state);
    checkpoints.Finish();
    EXPECT_EQ(counts.puts, 1);
    EXPECT_FALSE(counts.gone);
    EXPECT_FALSE(checkpoints.IsDue(Event::kBatchCheckpoint, state));
  }
  EXPECT_TRUE(counts.gone);
}

}  // namespace
}  // namespace composer
