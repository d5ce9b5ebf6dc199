// Tests saves in the background of training: what is saved, and what happens on errors, when a save comes too early,
// and at the end.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "checkpoint/load/reader.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/gate_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TrainerOptions Saving(const std::string& folder, Time interval = Time::Batches(1)) {
  TrainerOptions options = SmallRun();
  options.save.save_folder = folder;
  options.save.save_interval = interval;
  return options;
}

// Saves into `store`, which this trainer does not own.
TrainerOptions SavingInto(ObjectStore& store, Time interval = Time::Batches(1)) {
  TrainerOptions options = Saving("test://place", interval);
  options.save.open_store = [&store](const std::string&) {
    return std::shared_ptr<ObjectStore>(std::shared_ptr<void>(), &store);
  };
  return options;
}

std::vector<std::string> Names(ObjectStore& store) {
  std::vector<std::string> names;
  const std::vector<std::string> keys = *store.List("");
  for (const std::string& key : keys) {
    if (key.find("/manifest.json") != std::string::npos) names.push_back(key.substr(0, key.find('/')));
  }
  return names;
}

StateDict Loaded(const std::string& folder, const std::string& name) {
  LocalStore store(folder);
  return *LoadNewStateDict(store, name);
}

TEST(AsyncSaves, HoldTheSameBitsAsBlockingOnesAndMakeNoCollectiveMore) {
  for (const int ranks : {1, 2}) {
    const TempDir async, blocking;
    const auto run = [&](const TempDir& folder, bool save_async) {
      return TrainOnRanks(ranks, [&, save_async](int) {
        TrainerOptions options = Saving(folder.path());
        options.save.save_async = save_async;
        return options;
      });
    };
    const auto first = run(async, true), second = run(blocking, false);
    ASSERT_TRUE(first[0].status.ok() && second[0].status.ok()) << first[0].status << second[0].status;
    EXPECT_EQ(first[0].num_collectives, second[0].num_collectives);
    EXPECT_EQ(LargestDifference(first[0], second[0]), 0);
    const std::vector<std::string> names = Checkpoints(async.path());
    EXPECT_EQ(names.size(), 10u);
    ASSERT_EQ(names, Checkpoints(blocking.path()));
    for (const std::string& name : names) {
      const StateDict a = Loaded(async.path(), name), b = Loaded(blocking.path(), name);
      ASSERT_EQ(a.tensors.size(), b.tensors.size());
      for (size_t i = 0; i < a.tensors.size(); ++i) {
        EXPECT_TRUE(torch::equal(a.tensors[i].second, b.tensors[i].second)) << name << " " << a.tensors[i].first;
      }
    }
  }
}

TEST(AsyncSaves, TrainingGoesOnWhileOneIsWritten) {
  MemoryStore memory;
  GateStore store(memory);
  TrainerOptions options = SavingInto(store, Time::Batches(4));
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    if (state.timestamp.batch != 6) return;
    EXPECT_TRUE(Names(memory).empty()) << "that of batch 4 is still being written";
    store.Open();  // never reached if the save of batch 4 blocked
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(Names(memory), ElementsAre("ep0-ba4", "ep1-ba8", "ep2-ba10"));
}

TEST(AsyncSaves, OneThatComesTooEarlyWaitsOrIsSkippedOnAllRanks) {
  for (const int ranks : {1, 2}) {
    MemoryStore memory;
    GateStore store(memory);
    const auto results = TrainOnRanks(ranks, [&](int rank) {
      TrainerOptions options = SavingInto(store);
      options.save.save_overlap = SaveOverlap::kSkip;
      if (rank == 0) {
        AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
          if (state.timestamp.batch == 5) store.Open();  // the saves of batches 2 to 4 did not wait
        });
      }
      return options;
    });
    for (const RunResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
    const auto names = Names(memory);
    // The last batch is saved before the end of its epoch or, when that save was skipped, after it.
    EXPECT_THAT(names, AllOf(Contains("ep0-ba1"), Contains(testing::AnyOf("ep1-ba10", "ep2-ba10"))));
    for (const char* skipped : {"ep0-ba2", "ep0-ba3", "ep0-ba4"}) EXPECT_THAT(names, Not(Contains(skipped))) << ranks;
  }
}

TEST(AsyncSaves, OneThatFailsEndsAllRanksAfterTheSameBatchWithItsError) {
  MemoryStore disk;
  const auto results = TrainOnRanks(2, [&](int rank) {
    auto store = std::make_shared<FaultStore>(disk);
    store->OnlyFor("ba4/");
    if (rank == 1) store->FailCalls(0, 1000, absl::ResourceExhaustedError("No space left on device"));
    TrainerOptions options = SavingInto(*store, Time::Batches(4));
    options.save.open_store = [store](const std::string&) { return store; };
    options.max_duration = Time::Batches(1000);  // in time, whenever the error becomes known
    return options;
  });
  for (const RunResult& result : results) {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
    EXPECT_THAT(std::string(result.status.message()),
                AllOf(HasSubstr("saving a checkpoint"), HasSubstr("rank 1"), HasSubstr("No space left on device")));
  }
  EXPECT_GE(results[0].timestamp.batch, 4);
  EXPECT_EQ(results[0].timestamp.batch, results[1].timestamp.batch);
  EXPECT_TRUE(Names(disk).empty());
}

TEST(AsyncSaves, OneThatFailsAtTheEndIsTheRunsError) {
  MemoryStore disk;
  FaultStore store(disk);
  store.OnlyFor("ep2-ba10/");
  store.FailCalls(0, 1000, absl::ResourceExhaustedError("No space left on device"));
  const RunResult result = Train(SavingInto(store, Time::Epochs(1)));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
  EXPECT_THAT(Names(disk), ElementsAre("ep1-ba5"));
}

TEST(AsyncSaves, ARunThatFailsByItselfLetsTheSaveInFlightEnd) {
  MemoryStore memory;
  GateStore store(memory);
  TrainerOptions options = SavingInto(store, Time::Batches(3));
  options.callbacks.push_back(std::make_unique<OnEvent>(EventSet{Event::kBatchEnd}, [&](Event, State& state) {
    if (state.timestamp.batch < 5) return absl::OkStatus();
    store.Open();
    return absl::InternalError("the loss is nowhere to be found");
  }));
  EXPECT_EQ(Train(std::move(options)).status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Names(memory), ElementsAre("ep0-ba3"));
}

TEST(SaveFolder, IsCheckedBeforeTraining) {
  MemoryStore memory;
  FaultStore store(memory);
  int batches = 0;
  const auto train = [&](const char* run_name, bool autoresume) {
    TrainerOptions options = SavingInto(store, Time::Batches(4));
    options.run_name = run_name;
    options.save.autoresume = autoresume;
    AddCallback(options, {Event::kBatchEnd}, [&](State&) { ++batches; });
    return Train(std::move(options)).status;
  };
  store.OnlyFor("/writable");
  store.FailCalls(0, 1, absl::PermissionDeniedError("403 AccessDenied"));
  const absl::Status denied = train("first", true);
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
  EXPECT_THAT(std::string(denied.message()), HasSubstr("save_folder: "));
  EXPECT_EQ(batches, 0);
  ASSERT_TRUE(train("first", true).ok());
  batches = 0;
  const absl::Status taken = train("second", false);
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists) << taken;
  EXPECT_EQ(batches, 0);
  EXPECT_TRUE(train("first", false).ok()) << "a run may begin anew in its own folder";
}

TEST(AsyncSaves, ACheckpointIsMadeOnRequest) {
  for (const int ranks : {1, 2}) {
    const TempDir folder;
    const auto results = TrainOnRanks(ranks, [&](int rank) {
      TrainerOptions options = Saving(folder.path(), Time::Batches(0));
      if (rank == ranks - 1) {
        AddCallback(options, {Event::kBatchEnd}, [](State& state) {
          if (state.timestamp.batch == 3) state.SaveCheckpoint();
        });
      }
      return options;
    });
    for (const RunResult& result : results) EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(Checkpoints(folder.path()), ElementsAre(ranks == 1 ? "ep0-ba3" : "ep0-ba4", "ep2-ba10"));
  }
}

TEST(AsyncSaves, ACheckpointIsMadeWhenTheSupervisionAsks) {
  struct Asks final : Supervision {
    bool TakeSaveRequest() override { return ++calls == 4 || calls == 7; }
    int calls = 0;
  };
  const TempDir folder;
  Asks asks;
  TrainerOptions options = Saving(folder.path(), Time::Batches(0));
  options.supervision = &asks;
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_THAT(Checkpoints(folder.path()), ElementsAre("ep0-ba4", "ep1-ba7", "ep2-ba10"));
}

TEST(AsyncSaves, ADrainIsDurableForAllSavers) {
  MemoryStore memory, other;
  GateStore store(memory);
  TrainerOptions options = SavingInto(store, Time::Batches(2));
  SaveOptions further;
  further.save_folder = "other://place";
  further.save_interval = Time::Batches(2);
  further.open_store = [&other](const std::string&) {
    return std::shared_ptr<ObjectStore>(std::shared_ptr<void>(), &other);
  };
  options.checkpoint_savers.push_back(further);
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    if (state.timestamp.batch == 3) store.Open();
  });
  DrainAt drain(3);
  options.supervision = &drain;
  EXPECT_EQ(Train(std::move(options)).status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Names(memory), ElementsAre("ep0-ba2", "ep0-ba3"));
  EXPECT_THAT(Names(other), ElementsAre("ep0-ba2"));
}

}  // namespace
}  // namespace composer
