// The power goes, or the process is killed, at every single step of a save; then the machine starts again.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/cleanup.h"
#include "checkpoint/verify.h"
#include "storage/local_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/power_cut_disk.h"

namespace composer {
namespace {

using Loses = PowerCutDisk::Loses;

class Crash : public testing::TestWithParam<Loses> {};

// What must hold after any crash during the save of batch 3, with batches 1 and 2 there and two kept.
void ExpectIntactAndUsable(PowerCutDisk& disk, bool save_returned, int cut) {
  LocalStore store("/run/checkpoints", disk);
  const CheckpointChoice choice = *FindNewestValid(store);
  EXPECT_TRUE(choice.refused.empty()) << "a torn checkpoint is visible: " << choice.refused[0] << ", cut " << cut;
  EXPECT_TRUE(choice.checkpoint == "ep0-ba3" || (choice.checkpoint == "ep0-ba2" && !save_returned))
      << choice.checkpoint << ", cut " << cut;
  const auto committed = *CommittedCheckpoints(store);
  for (const CheckpointName& name : committed) EXPECT_EQ(LoadedDifference(store, name.batch), "") << "cut " << cut;
  // The next run needs no help: it computes batch 3 again if need be, goes on, and leaves no trace of the crash.
  Saver next(store, RankExchange(), {.run_name = "r", .keep = 2});
  ASSERT_TRUE(next.Save(MakeState(3), {0, 3}, 0).ok()) << cut;
  ASSERT_TRUE(next.Save(MakeState(4), {0, 4}, 0).ok()) << cut;
  EXPECT_EQ(LoadedDifference(store, 3), "");
  EXPECT_EQ(LoadedDifference(store, 4), "");
  const auto keys = *store.List("");
  EXPECT_EQ(keys.size(), 5u) << testing::PrintToString(keys);
}

TEST_P(Crash, AtEveryStepOfASaveOlderCheckpointsLoadAndNoTornOneIsVisible) {
  int cuts = 0;
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    Saver saver(store, RankExchange(), {.run_name = "r", .keep = 2});
    for (int64_t batch : {1, 2}) ASSERT_TRUE(saver.Save(MakeState(batch), {0, batch}, 0).ok());
    disk.CutAt(cut);
    const bool returned = saver.Save(MakeState(3), {0, 3}, 0).ok();
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam());
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
    for (int64_t batch : {2, 3}) ASSERT_TRUE(SaveOne(store, batch, {.run_name = "r"}).ok());
    disk.FlipBit("/run/checkpoints/ep0-ba3/manifest.json", 1000);
    ASSERT_EQ(FindNewestValid(store)->checkpoint, "ep0-ba2");
    disk.CutAt(cut);
    const bool returned = SaveOne(store, 3, {.run_name = "r"}).ok();
    const bool was_cut = disk.is_off();
    disk.Reboot(GetParam());
    const CheckpointChoice choice = *FindNewestValid(store);
    EXPECT_EQ(choice.checkpoint == "ep0-ba3", choice.refused.empty());
    EXPECT_TRUE(choice.checkpoint == "ep0-ba3" || !returned) << cut;
    EXPECT_EQ(LoadedDifference(store, choice.checkpoint == "ep0-ba3" ? 3 : 2), "") << cut;
    ASSERT_TRUE(SaveOne(store, 3, {.run_name = "r"}).ok());
    EXPECT_EQ(LoadedDifference(store, 3), "");
    EXPECT_EQ(store.List("")->size(), 5u);
    if (!was_cut) break;
  }
}

// Steps of two ranks interleave as they like: whatever the order, the same must hold.
TEST_P(Crash, OfAMachineWithTwoRanks) {
  for (int cut = 0;; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/run/checkpoints", disk);
    for (int64_t batch : {1, 2}) ASSERT_TRUE(SaveOne(store, batch, {.run_name = "r", .keep = 2}).ok());
    std::atomic<int> returned{0};
    disk.CutAt(cut);
    RunRanks(2, [&](RankExchange exchange) {
      returned += Saver(store, exchange, {.run_name = "r", .keep = 2}).Save(MakeState(3), {0, 3}, 0).ok();
    });
    const bool was_cut = disk.is_off();
    EXPECT_TRUE(returned == 0 || returned == 2);
    disk.Reboot(GetParam());
    ExpectIntactAndUsable(disk, returned > 0, cut);
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

INSTANTIATE_TEST_SUITE_P(Loses, Crash, testing::Values(Loses::kNothing, Loses::kAllUnsynced, Loses::kUnsyncedContents));

}  // namespace
}  // namespace composer
