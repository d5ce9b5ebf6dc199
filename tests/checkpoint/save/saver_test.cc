// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Checkpoints(ObjectStore& store) {
  std::vector<std::string> names;
  const std::vector<CheckpointName> committed = *CommittedCheckpoints(store);
  for (const CheckpointName& name : committed) names.push_back(name.ToString());
  return names;
}

// Returns all keys, without the random part of attempt names.
std::vector<std::string> Keys(ObjectStore& store) {
  std::vector<std::string> keys = *store.List("");
  for (std::string& key : keys) {
    if (const size_t at = key.find("attempt-"); at != std::string::npos) key.replace(at + 8, 16, "*");
  }
  return keys;
}

TEST(Saver, SavedOnAnyNumberOfRanksLoadsOnAnyOther) {
  for (const int save_world : {1, 2, 3, 9}) {
    TempDir dir;
    LocalStore store(dir.Path("checkpoints"));
    const int64_t keys = RunRanks(save_world, [&](RankExchange exchange) {
      LocalStore own(store.root());
      Saver saver(own, exchange, {.run_name = "run"});
      const auto saved = saver.Save(MakeState(20), {1, 20}, 200);
      ASSERT_TRUE(saved.ok()) << saved.status();
      EXPECT_EQ(*saved, dir.Path("checkpoints/ep1-ba20"));
      saver.Save(MakeState(20), {1, 20}, 200).status().IgnoreError();  // saves over itself once more
    });
    EXPECT_EQ(keys, 0);
    for (const int load_world : {1, 2, 3}) {
      RunRanks(load_world, [&](RankExchange exchange) {
        const auto choice = ChooseCheckpoint(store, exchange);
        ASSERT_TRUE(choice.ok());
        ASSERT_EQ(choice->checkpoint, "ep1-ba20");
        StateDict target = MakeTarget();
        ASSERT_TRUE(LoadCheckpoint(store, choice->checkpoint, &target).ok());
        EXPECT_EQ(Difference(MakeState(20), target), "");
      });
    }
    const Manifest manifest = *ReadManifest(store, "ep1-ba20");
    EXPECT_EQ(manifest.world_size, save_world);
    EXPECT_EQ(manifest.samples, 200);
    EXPECT_EQ(manifest.files.size(), static_cast<size_t>(std::min(save_world, 7)));  // there are only 7 tensors
  }
}

TEST(Saver, TheFolderLooksAsDocumented) {
  MemoryStore store;
  ManualClock clock(absl::FromUnixSeconds(1'700'000'000));
  ASSERT_TRUE(SaveOne(store, 5, {.run_name = "r", .clock = &clock}).ok());
  EXPECT_THAT(Keys(store), ElementsAre("ep0-ba5/attempt-*/rank-00000.safetensors", "ep0-ba5/manifest.json", "latest"));
  EXPECT_EQ(*GetObject(store, "latest", 100), "ep0-ba5\n");
  EXPECT_EQ(ReadManifest(store, "ep0-ba5")->saved_at, "2023-11-14T22:13:20Z");
}

TEST(Saver, TheHintHasTheNameThatIsAskedForOrNone) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 5, {.run_name = "r", .latest = "newest"}).ok());
  EXPECT_EQ(*GetObject(store, "newest", 100), "ep0-ba5\n");
  EXPECT_EQ(store.Size("latest").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(SaveOne(store, 6, {.run_name = "r", .latest = ""}).ok());
  EXPECT_EQ(store.List("")->size(), 5u);
}

TEST(Saver, KeepsTheNewest) {
  MemoryStore store;
  Saver saver(store, RankExchange(), {.run_name = "r", .keep = 2});
  for (int64_t batch = 1; batch <= 5; ++batch) ASSERT_TRUE(saver.Save(MakeState(batch), {0, batch}, 0).ok());
  EXPECT_THAT(Checkpoints(store), ElementsAre("ep0-ba4", "ep0-ba5"));
  EXPECT_EQ(store.List("")->size(), 5u);  // nothing else is left
  EXPECT_EQ(LoadedDifference(store, 4), "");
}

TEST(Saver, AFullDiskOnOneRankIsToldToAllAndHarmsNothing) {
  MemoryStore disk;
  ASSERT_TRUE(SaveOne(disk, 1).ok());
  const int64_t keys = RunRanks(3, [&](RankExchange exchange) {
    FaultStore store(disk);
    if (exchange.rank() == 1) store.FailCalls(0, 100, absl::ResourceExhaustedError("No space left on device"));
    Saver saver(store, exchange, {});
    const auto saved = saver.Save(MakeState(2), {0, 2}, 0);
    EXPECT_EQ(saved.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(saved.status().message()),
                AllOf(HasSubstr("cannot save checkpoint ep0-ba2: rank 1: "), HasSubstr("memory://ep0-ba2/attempt-"),
                      HasSubstr("rank-00001.safetensors"), HasSubstr("No space left on device")));
    store.FailCalls(0, 0, absl::OkStatus());  // there is room again: the same saver continues
    const auto again = saver.Save(MakeState(3), {0, 3}, 0);
    EXPECT_TRUE(again.ok()) << again.status();
  });
  EXPECT_EQ(keys, 0);
  EXPECT_THAT(Checkpoints(disk), ElementsAre("ep0-ba1", "ep0-ba3"));
  EXPECT_THAT(*disk.List("ep0-ba2"), ElementsAre());
  EXPECT_EQ(LoadedDifference(disk, 1), "");
  EXPECT_EQ(LoadedDifference(disk, 3), "");
}

TEST(Saver, WhicheverCallFailsTheOlderCheckpointStaysAndTheNextSaveSucceeds) {
  int failed_saves = 0;
  for (int call = 0; call < 40; ++call) {
    MemoryStore disk;
    ASSERT_TRUE(SaveOne(disk, 1).ok());
    FaultStore store(disk);
    store.FailCalls(call, 1, absl::UnavailableError("503"));
    Saver saver(store, RankExchange(), {.keep = 3});
    const auto saved = saver.Save(MakeState(2), {0, 2}, 0);
    failed_saves += !saved.ok();
    store.FailCalls(0, 0, absl::OkStatus());
    EXPECT_EQ(FindNewestValid(disk)->checkpoint, saved.ok() ? "ep0-ba2" : "ep0-ba1") << call;
    EXPECT_EQ(LoadedDifference(disk, 1), "");
    ASSERT_TRUE(saver.Save(MakeState(3), {0, 3}, 0).ok());
    EXPECT_EQ(LoadedDifference(disk, 3), "");
    EXPECT_EQ(disk.List("ep0-ba2")->size(), saved.ok() ? 2u : 0u) << call;
  }
  EXPECT_GE(failed_saves, 3);  // data, its check, manifest
}

TEST(Saver, StateThatCannotBeStoredIsNamedOnAllRanks) {
  MemoryStore store;
  RunRanks(2, [&](RankExchange exchange) {
    StateDict state = MakeState(1);
    if (exchange.rank() == 1) state.tensors[0].second = torch::zeros({2}, at::kComplexDouble);
    const auto saved = Saver(store, exchange, {}).Save(state, {0, 1}, 0);
    EXPECT_EQ(saved.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(saved.status().message()), AllOf(HasSubstr("rank 1"), HasSubstr("model.fc.weight")));
  });
  StateDict bad_json = MakeState(1);
  bad_json.small["timestamp"] = "{";
  EXPECT_THAT(std::string(Saver(store, RankExchange(), {}).Save(bad_json, {0, 1}, 0).status().message()),
              HasSubstr("\"timestamp\""));
  EXPECT_TRUE(store.List("")->empty());
}

TEST(Saver, RanksThatDisagreeOnTheTensorsAreAnError) {
  MemoryStore store;
  RunRanks(2, [&](RankExchange exchange) {
    StateDict state = MakeState(1);
    if (exchange.rank() == 1) state.tensors.pop_back();
    EXPECT_EQ(Saver(store, exchange, {}).Save(state, {0, 1}, 0).status().code(), absl::StatusCode::kInternal);
  });
  EXPECT_TRUE(store.List("")->empty());
}

TEST(Saver, AFolderThatIsNotSharedIsFoundAtTheFirstSave) {
  MemoryStore disks[2];
  RunRanks(2, [&](RankExchange exchange) {
    const auto saved = Saver(disks[exchange.rank()], exchange, {}).Save(MakeState(1), {0, 1}, 0);
    EXPECT_THAT(std::string(saved.status().message()), HasSubstr("is the folder shared by all nodes?"));
  });
  EXPECT_TRUE(disks[0].List("")->empty());
}

TEST(Saver, ADamagedCheckpointIsReplacedWhenItsStepComesRoundAgain) {
  for (const char* damaged : {"manifest.json", "rank-00000.safetensors"}) {
    MemoryStore store;
    ASSERT_TRUE(SaveOne(store, 1).ok());
    ASSERT_TRUE(SaveOne(store, 2).ok());
    const std::vector<std::string> keys = *store.List("ep0-ba2");
    for (const std::string& key : keys) {
      if (absl::EndsWith(key, damaged)) ASSERT_TRUE(store.Put(key, {"damage"}).ok());
    }
    EXPECT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba1");
    ASSERT_TRUE(SaveOne(store, 2, {.run_name = "any"}).ok());
    EXPECT_EQ(LoadedDifference(store, 2), "");
    EXPECT_EQ(store.List("ep0-ba2")->size(), 2u) << "the damaged attempt is gone";
  }
}

TEST(Saver, ACheckpointThatCannotBeReadJustNowIsNotTakenForDamaged) {
  MemoryStore disk;
  ASSERT_TRUE(SaveOne(disk, 1, {.run_name = "first"}).ok());
  int refused = 0;
  for (int call = 0; call < 12; ++call) {
    FaultStore store(disk);
    store.FailCalls(call, 100, absl::UnavailableError("503"));
    EXPECT_FALSE(SaveOne(store, 1, {.run_name = "second"}).ok());
    EXPECT_EQ(ReadManifest(disk, "ep0-ba1")->run_name, "first") << call;
    store.FailCalls(call, 1, absl::UnavailableError("503"));  // and one that recovers at once
    refused += !SaveOne(store, 1, {.run_name = "second"}).ok();
    EXPECT_EQ(ReadManifest(disk, "ep0-ba1")->run_name, "first") << call;
  }
  EXPECT_EQ(refused, 12);
}

TEST(Saver, AValidCheckpointOfAnotherRunIsReplacedOnlyWhenAskedTo) {
  MemoryStore store;
  ASSERT_TRUE(SaveOne(store, 1, {.run_name = "first"}).ok());
  const auto refused = SaveOne(store, 1, {.run_name = "second"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.status().message()), AllOf(HasSubstr("run \"first\""), HasSubstr("save_overwrite")));
  EXPECT_EQ(ReadManifest(store, "ep0-ba1")->run_name, "first");
  EXPECT_EQ(store.List("ep0-ba1")->size(), 2u);
  ASSERT_TRUE(SaveOne(store, 1, {.run_name = "second", .overwrite = true}).ok());
  EXPECT_EQ(ReadManifest(store, "ep0-ba1")->run_name, "second");
  EXPECT_EQ(LoadedDifference(store, 1), "");
}

TEST(Saver, SmallStateOfAllRanksIsUnited) {
  MemoryStore store;
  RunRanks(2, [&](RankExchange exchange) {
    StateDict state = MakeState(1);
    state.small[absl::StrCat("rng/", exchange.rank())] = absl::StrCat(exchange.rank());
    ASSERT_TRUE(Saver(store, exchange, {}).Save(state, {0, 1}, 0).ok());
  });
  const auto small = ReadManifest(store, "ep0-ba1")->small;
  EXPECT_EQ(small.at("rng/0"), "0");
  EXPECT_EQ(small.at("rng/1"), "1");
  EXPECT_EQ(small.at("seed"), "1");
}

}  // namespace
}  // namespace composer
