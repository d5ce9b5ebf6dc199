// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/folder_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/load/reader.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"
#include "tests/support/fake_bucket.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One store of each kind that can hold leases.
struct Places {
  TempDir dir;
  FakeBucket bucket;
  FakeBucket google;
  std::vector<std::shared_ptr<ObjectStore>> stores = {
      std::make_shared<MemoryStore>(), std::make_shared<LocalStore>(dir.Path("checkpoints")),
      std::shared_ptr<ObjectStore>(new S3Store(bucket.Store())),
      std::shared_ptr<ObjectStore>(
          new S3Store(google.Store(S3Store::kPartBytes, S3Bucket::CreateOnly::kGenerationMatch)))};
};

class Launch {
 public:
  explicit Launch(std::string name, std::string run = "run", std::string run_id = "0000000000000001")
      : holder_{std::move(run), std::move(run_id), {name}, 1, name} {}
  Launch& Generation(uint64_t generation) {
    holder_.generation = generation;
    holder_.process += "'";
    return *this;
  }
  absl::StatusOr<std::unique_ptr<FolderLease>> Take(const std::shared_ptr<ObjectStore>& store, Clock& clock) const {
    return FolderLease::Acquire(store, holder_, {.clock = &clock, .renews = false});
  }

 private:
  LeaseHolder holder_;
};

// A clock on which something happens while others sleep.
class BusyClock final : public Clock {
 public:
  explicit BusyClock(std::function<void()> while_sleeping) : act_(std::move(while_sleeping)) {}
  absl::Time Now() const override { return clock_.Now(); }
  void SleepFor(absl::Duration duration) override {
    clock_.SleepFor(duration);
    act_();
  }
  absl::Duration slept() const { return clock_.Now() - absl::UnixEpoch(); }

 private:
  ManualClock clock_;
  const std::function<void()> act_;
};

TEST(FolderLease, ALaterLaunchTakesOverAtOnceAndTheEarlierOneIsFenced) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto first = Launch("first").Take(store, clock);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE((*first)->Check().ok());
    auto second = Launch("second").Take(store, clock);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(clock.Now(), absl::UnixEpoch()) << "it need not wait";
    EXPECT_TRUE((*second)->Check().ok());
    const absl::Status fenced = (*first)->Check();
    EXPECT_EQ(fenced.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(fenced.message()), HasSubstr("a later launch of this run"));
    EXPECT_FALSE((*first)->Renew().ok());
    EXPECT_TRUE((*second)->Renew().ok());
    EXPECT_EQ((*first)->Check(), fenced) << "and stays so";
    // Its next generation may not take the folder back.
    const auto again = Launch("first").Generation(2).Take(store, clock);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition) << again.status();
    EXPECT_THAT(*store->List("lease"), ElementsAre(LeaseKey(2))) << "one lease is left";
  }
}

TEST(FolderLease, ALaterGenerationOfALaunchFollowsTheLast) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto first = Launch("launch").Take(store, clock);
    auto second = Launch("launch").Generation(2).Take(store, clock);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ((*first)->Check().code(), absl::StatusCode::kUnavailable) << "starting it again is right";
    EXPECT_TRUE((*second)->Check().ok());
  }
}

TEST(FolderLease, AnotherRunIsRefusedWhileTheHolderRenews) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto holder = Launch("first").Take(store, clock);
    ASSERT_TRUE(holder.ok()) << holder.status();
    BusyClock watching([&] { ASSERT_TRUE((*holder)->Renew().ok()); });
    const auto other = Launch("second", "other", "0000000000000002").Take(store, watching);
    EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(other.status().message()), HasSubstr("is in use by run \"run\""));
    EXPECT_TRUE((*holder)->Check().ok());
  }
}

TEST(FolderLease, AnotherRunTakesOverFromAHolderThatIsSilentAMinute) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto dead = Launch("first").Take(store, clock);
    BusyClock watching([] {});
    auto other = Launch("second", "other", "0000000000000002").Take(store, watching);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_GE(watching.slept(), kLeaseSilence);
    EXPECT_LE(watching.slept(), kLeaseSilence + absl::Seconds(2));
    EXPECT_EQ((*dead)->Check().code(), absl::StatusCode::kFailedPrecondition) << "should it live after all";
  }
}

TEST(FolderLease, AReleasedFolderIsFreeAtOnceAndItsLastHolderOut) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto first = Launch("first").Take(store, clock);
    (*first)->Release();
    EXPECT_FALSE((*first)->Check().ok());
    auto other = Launch("second", "other", "0000000000000002").Take(store, clock);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(clock.Now(), absl::UnixEpoch());
    (*first)->Release();
    EXPECT_TRUE((*other)->Check().ok());
  }
}

TEST(FolderLease, SaversOfOneProcessShareIt) {
  auto store = std::make_shared<MemoryStore>();
  ManualClock clock;
  auto first = Launch("launch").Take(store, clock);
  auto second = Launch("launch").Take(store, clock);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE((*first)->Check().ok());
  EXPECT_TRUE((*second)->Check().ok());
  (*second)->Release();
  EXPECT_TRUE((*first)->Check().ok()) << "the one who took it releases it";
}

TEST(FolderLease, OfManyThatWantAFolderExactlyOneHasIt) {
  Places places;
  for (const auto& store : places.stores) {
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<FolderLease>> leases(8);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        ManualClock clock;
        auto lease = Launch(absl::StrCat("launch-", i)).Take(store, clock);
        if (lease.ok()) leases[i] = *std::move(lease);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int held = 0;
    for (const auto& lease : leases) held += lease != nullptr && lease->Check().ok() ? 1 : 0;
    EXPECT_EQ(held, 1);
  }
}

TEST(FolderLease, WhatIsNoLeaseIsWaitedForAndNotObeyed) {
  auto store = std::make_shared<MemoryStore>();
  ASSERT_TRUE(store->Put(LeaseKey(4), {"\xff{"}).ok());
  ASSERT_TRUE(store->Put("lease/notes.txt", {"mine"}).ok());
  ManualClock clock;
  auto lease = Launch("launch").Take(store, clock);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_GE(clock.Now() - absl::UnixEpoch(), kLeaseSilence);
  ASSERT_TRUE((*lease)->Renew().ok());
  EXPECT_THAT(*store->List(""), ElementsAre(LeaseKey(5), "lease/notes.txt"));
}

TEST(FolderLease, ALeaseThatWasDeletedByHandComesBackAndIsNotMadeAtTheEnd) {
  auto store = std::make_shared<MemoryStore>();
  ManualClock clock;
  auto lease = Launch("launch").Take(store, clock);
  ASSERT_TRUE(store->DeleteTree("lease").ok());
  ASSERT_TRUE((*lease)->Renew().ok());
  EXPECT_THAT(*store->List(""), ElementsAre(LeaseKey(1)));
  ASSERT_TRUE(store->DeleteTree("lease").ok());
  (*lease)->Release();
  EXPECT_TRUE(store->List("")->empty());
}

TEST(FolderLease, WhatTheStoreSaysIsTheAnswer) {
  MemoryStore memory;
  auto store = std::make_shared<FaultStore>(memory);
  ManualClock clock;
  auto lease = Launch("launch").Take(store, clock);
  ASSERT_TRUE(lease.ok());
  store->FailCalls(0, 1, absl::UnavailableError("503"));
  EXPECT_EQ((*lease)->Check().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE((*lease)->Check().ok()) << "and is not remembered";
  for (const int call : {0, 1, 2, 3}) {  // list, size, read, create
    store->FailCalls(call, 1, absl::PermissionDeniedError("403"));
    EXPECT_EQ(Launch("second").Take(store, clock).status().code(), absl::StatusCode::kPermissionDenied) << call;
  }
}

// Regression test for M4: each launch used to delete what the other was writing, and to prune what it had saved.
TEST(FolderLease, AFencedLaunchCommitsNothingAndDeletesNothing) {
  Places places;
  for (const auto& store : places.stores) {
    ManualClock clock;
    auto first = Launch("first").Take(store, clock);
    const auto guarded = [](FolderLease& lease) { return [&lease] { return lease.Check(); }; };
    SaverOptions old_options = {.run_name = "run", .keep = 1, .may_write = guarded(**first)};
    ASSERT_TRUE(SaveOne(*store, 1, old_options).ok());
    auto second = Launch("second").Take(store, clock);
    SaverOptions new_options = {.run_name = "run", .may_write = guarded(**second)};
    ASSERT_TRUE(SaveOne(*store, 2, new_options).ok());
    // The later launch is in the middle of a save.
    const std::string writing = AttemptKey("ep0-ba3", NewAttemptName("run")) + "/rank-00000.safetensors";
    ASSERT_TRUE(store->Put(writing, {"x"}).ok());
    const auto saved = SaveOne(*store, 3, old_options);
    EXPECT_EQ(saved.status().code(), absl::StatusCode::kFailedPrecondition) << saved.status();
    EXPECT_TRUE(store->Size(writing).ok());
    EXPECT_EQ(*CommittedCheckpoints(*store), (std::vector<CheckpointName>{{0, 1}, {0, 2}}));
    // The fenced launch's remains are removed by the later launch's first save after it began anew.
    ASSERT_TRUE(SaveOne(*store, 4, new_options).ok());
    EXPECT_EQ(*CommittedCheckpoints(*store), (std::vector<CheckpointName>{{0, 1}, {0, 2}, {0, 4}}));
    EXPECT_TRUE(UnfinishedAttempts(*store)->empty());
  }
}

// It used to say that its files do not exist, and to ask whether the folder is shared.
TEST(FolderLease, ASaveUnderWayWhenTheFolderIsTakenOverSaysSo) {
  struct Interrupted final : FaultStore {
    using FaultStore::FaultStore;
    absl::Status Put(const std::string& key, Pieces pieces) override {
      const absl::Status status = FaultStore::Put(key, pieces);
      if (absl::EndsWith(key, ".safetensors") && meanwhile) std::exchange(meanwhile, nullptr)();
      return status;
    }
    std::function<void()> meanwhile;
  };
  MemoryStore memory;
  auto store = std::make_shared<Interrupted>(memory);
  ManualClock clock;
  auto first = Launch("first").Take(store, clock);
  std::unique_ptr<FolderLease> second;
  store->meanwhile = [&] {
    second = *Launch("second").Take(store, clock);
    ASSERT_TRUE(DeleteInterrupted(*store, {"run"}).ok());
  };
  const auto saved = SaveOne(*store, 1, {.run_name = "run", .may_write = [&] { return (*first)->Check(); }});
  EXPECT_EQ(saved.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(saved.status().message()), HasSubstr("a later launch of this run"));
  EXPECT_TRUE(second->Check().ok());
}

}  // namespace
}  // namespace composer
