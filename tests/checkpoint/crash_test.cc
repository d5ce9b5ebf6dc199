// Power is cut, or the process is killed, at every single step of a save: each write (before it, halfway, before its
// sync), link, rename, removal, new folder and sync of a folder. Then the machine starts again.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "storage/local_store.h"
#include "tests/checkpoint/save_in_ways.h"
#include "tests/support/power_cut_disk.h"

namespace composer {
namespace {

using Loses = PowerCutDisk::Loses;

struct CrashCase {
  Loses loses;
  SaveWay way;
};

class Crash : public testing::TestWithParam<CrashCase> {
 protected:
  // Success must be reported to all ranks or to none.
  bool Save(ObjectStore& store, int64_t batch, const SaverOptions& options) {
    const int succeeded = SaveThisWay(GetParam().way, store, batch, options);
    EXPECT_TRUE(succeeded == 0 || succeeded == GetParam().way.ranks) << succeeded;
    return succeeded > 0;
  }
};

// The next run needs no help: it repeats batch 3 if necessary, continues, and leaves no trace of the crash.
void ExpectTheNextRunGoesOn(ObjectStore& store, int cut) {
  Saver next(store, RankExchange(), {.run_name = "r", .keep = 2});
  ASSERT_TRUE(next.Save(MakeState(3), {0, 3}, 0).ok()) << cut;
  ASSERT_TRUE(next.Save(MakeState(4), {0, 4}, 0).ok()) << cut;
  EXPECT_EQ(LoadedDifference(store, 3), "");
  EXPECT_EQ(LoadedDifference(store, 4), "");
  const auto keys = *store.List("");
  EXPECT_EQ(keys.size(), 5u) << testing::PrintToString(keys) << ", cut " << cut;
}

// Checks what must hold after any crash during the save of batch 3, with batches 1 and 2 present and two kept.
void ExpectIntactAndUsable(PowerCutDisk& disk, bool save_returned, int cut) {
  LocalStore store("/run/checkpoints", disk);
  const CheckpointChoice choice = *FindNewestValid(store);
  EXPECT_TRUE(choice.refused.empty()) << "a torn checkpoint is visible: " << choice.refused[0] << ", cut " << cut;
  EXPECT_TRUE(choice.checkpoint == "ep0-ba3" || (choice.checkpoint == "ep0-ba2" && !save_returned))
      << choice.checkpoint << ", cut " << cut;
  const auto committed = *CommittedCheckpoints(store);
  for (const CheckpointName& name : committed) EXPECT_EQ(LoadedDifference(store, name.batch), "") << "cut " << cut;
  ExpectTheNextRunGoesOn(store, cut);
}

TEST_P(Crash, AtEveryStepOfASaveOlderCheckpointsLoadAndNoTornOneIsVisible) {
  int cuts = 0;
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    for (int64_t batch : {1, 2}) ASSERT_TRUE(Save(store, batch, {.run_name = "r", .keep = 2}));
    disk.CutAt(cut);
    const bool returned = Save(store, 3, {.run_name = "r", .keep = 2});
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam().loses);
    ExpectIntactAndUsable(disk, returned, cut);
    if (!was_cut) break;
    ++cuts;
  }
  EXPECT_GT(cuts, 25);  // two files of three steps each, their folders, `latest`, the deletion of batch 1
}

TEST_P(Crash, AtEveryStepOfReplacingADamagedCheckpoint) {
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    for (int64_t batch : {2, 3}) ASSERT_TRUE(Save(store, batch, {.run_name = "r"}));
    disk.FlipBit("/run/checkpoints/ep0-ba3/manifest.json", 1000);
    ASSERT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba2");
    disk.CutAt(cut);
    const bool returned = Save(store, 3, {.run_name = "r"});
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam().loses);
    const CheckpointChoice choice = *FindNewestValid(store);
    EXPECT_EQ(choice.checkpoint == "ep0-ba3", choice.refused.empty());
    EXPECT_TRUE(choice.checkpoint == "ep0-ba3" || !returned) << cut;
    EXPECT_EQ(LoadedDifference(store, choice.checkpoint == "ep0-ba3" ? 3 : 2), "") << cut;
    ASSERT_TRUE(SaveOne(store, 3, {.run_name = "r"}).ok());
    EXPECT_EQ(LoadedDifference(store, 3), "");
    EXPECT_EQ(store.List("")->size(), GetParam().way.ranks == 1 ? 5u : 6u);
    if (!was_cut) break;
  }
}

// With save_overwrite, batch 3 of another run stays whole until this run's takes its place.
TEST_P(Crash, AtEveryStepOfOverwritingAValidCheckpointOfTheSameStep) {
  int cuts = 0, old_ones = 0;
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    ASSERT_TRUE(Save(store, 3, {.run_name = "other"}));
    disk.CutAt(cut);
    const bool returned = Save(store, 3, {.run_name = "r", .overwrite = true});
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam().loses);
    const CheckpointChoice choice = *FindNewestValid(store);
    EXPECT_TRUE(choice.refused.empty()) << cut;
    EXPECT_EQ(choice.checkpoint, "ep0-ba3") << cut;
    EXPECT_EQ(LoadedDifference(store, 3), "") << cut;
    const std::string owner = ReadManifest(store, "ep0-ba3")->run_name;
    EXPECT_TRUE(owner == "r" || (owner == "other" && !returned)) << owner << ", cut " << cut;
    old_ones += owner == "other";
    ASSERT_TRUE(SaveOne(store, 3, {.run_name = "r", .overwrite = true}).ok());
    EXPECT_EQ(store.List("")->size(), 3u) << cut;
    if (!was_cut) break;
    ++cuts;
  }
  EXPECT_GT(old_ones, 5);
  EXPECT_GT(cuts - old_ones, 5) << "cuts after the commit as well";
}

// Three older checkpoints are deleted at once (keep was lowered): each is whole or gone.
TEST_P(Crash, AtEveryStepOfDeletingSeveral) {
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    for (int64_t batch : {0, 1, 2}) ASSERT_TRUE(Save(store, batch, {.run_name = "r"}));
    disk.CutAt(cut);
    const bool returned = Save(store, 3, {.run_name = "r", .keep = 1});
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam().loses);
    ExpectIntactAndUsable(disk, returned, cut);
    if (!was_cut) break;
  }
}

TEST(FullDisk, HarmsNothingAndTheNextSaveNeedsNoHelp) {
  PowerCutDisk disk;
  LocalStore store("/run/checkpoints", disk);
  Saver saver(store, RankExchange(), {.run_name = "r"});
  ASSERT_TRUE(saver.Save(MakeState(1), {0, 1}, 0).ok());
  disk.FailWrites(absl::ResourceExhaustedError("No space left on device"));
  EXPECT_EQ(saver.Save(MakeState(2), {0, 2}, 0).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba1");
  disk.FailWrites(absl::OkStatus());
  ASSERT_TRUE(saver.Save(MakeState(3), {0, 3}, 0).ok());
  EXPECT_EQ(store.List("")->size(), 5u);
}

std::vector<CrashCase> AllCases() {
  std::vector<CrashCase> cases;
  for (const Loses loses : {Loses::kNothing, Loses::kAllUnsynced, Loses::kUnsyncedContents}) {
    for (const bool async : {false, true}) {
      for (const int ranks : {1, 2}) cases.push_back({loses, {async, ranks}});
    }
  }
  return cases;
}

std::string NameOfCase(const testing::TestParamInfo<CrashCase>& test) {
  constexpr const char* kNames[] = {"Kill", "PowerCutNothingUnsynced", "PowerCutEmptyFiles"};
  return NameOf(test.param.way) + kNames[static_cast<int>(test.param.loses)];
}

INSTANTIATE_TEST_SUITE_P(Cases, Crash, testing::ValuesIn(AllCases()), NameOfCase);

}  // namespace
}  // namespace composer
