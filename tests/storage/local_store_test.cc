// SPDX-License-Identifier: Apache-2.0
#include "storage/local_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/power_cut_disk.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using Loses = PowerCutDisk::Loses;

constexpr int kMoreStepsThanAPut = 40;

std::string Content(ObjectStore& store, const std::string& key) {
  const auto content = GetObject(store, key, 1 << 20);
  return content.ok() ? *content : std::string(absl::StatusCodeToString(content.status().code()));
}

// Regression test for R11: on a file system without hard links no checkpoint was ever committed.
TEST(TakeFreeName, OfManyExactlyOneGetsTheNameWhateverTheFileSystemKnows) {
  for (const NameBy by : {NameBy::kLink, NameBy::kRename, NameBy::kReserve}) {
    TempDir dir;
    std::atomic<int> taken{0};
    std::atomic<int> winner{-1};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const std::string from = dir.Path(absl::StrCat("from-", i));
        ASSERT_TRUE(AtomicWriteFile(from, absl::StrCat("content ", i)).ok());
        const absl::Status status = TakeFreeName(from, dir.Path("to"), by);
        if (status.ok()) {
          ++taken;
          winner = i;
        } else {
          EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
          EXPECT_EQ(*ReadFile(from), absl::StrCat("content ", i)) << "the loser's file stays";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(*ReadFile(dir.Path("to")), absl::StrCat("content ", winner.load()));
    EXPECT_EQ(TakeFreeName(dir.Path("nothing"), dir.Path("to2"), by).code(), absl::StatusCode::kNotFound);
    EXPECT_FALSE(PathExists(dir.Path("to2")));
  }
}

class PowerCut : public testing::TestWithParam<Loses> {};

// At whatever step the power is cut, the key has all of its old content or all of the new content; once Put has
// returned, the new content.
TEST_P(PowerCut, PutIsAllOrNothingAtEveryStepAndDurableOnceReturned) {
  int last_cut = 0;
  for (int cut = 0; cut < kMoreStepsThanAPut; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/a/b", disk);
    ASSERT_TRUE(store.Put("c/k", {"old content"}).ok());
    disk.CutAt(cut);
    const absl::Status put = store.Put("c/k", {"new", " and longer content"});
    if (disk.is_off()) last_cut = cut;
    disk.Reboot(GetParam());
    if (put.ok()) {
      EXPECT_EQ(Content(store, "c/k"), "new and longer content") << cut;
    } else {
      EXPECT_THAT(Content(store, "c/k"), AnyOf("old content", "new and longer content")) << cut;
    }
  }
  EXPECT_GT(last_cut, 5);                       // some cuts did hit the steps of Put …
  EXPECT_LT(last_cut, kMoreStepsThanAPut - 1);  // … and all of them
}

TEST_P(PowerCut, PutIfAbsentOnAnEmptyDiskIsAllOrNothing) {
  for (int cut = 0; cut < kMoreStepsThanAPut; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/a/b", disk);
    disk.CutAt(cut);
    const absl::Status put = store.PutIfAbsent("c/d/k", {"some", " content"});
    disk.Reboot(GetParam());
    if (put.ok()) {
      EXPECT_EQ(Content(store, "c/d/k"), "some content") << cut;
    } else {
      EXPECT_THAT(Content(store, "c/d/k"), AnyOf("NOT_FOUND", "some content")) << cut;
    }
  }
}

TEST_P(PowerCut, LeftoversAreListedAndGoWithTheirFolder) {
  for (int cut = 0; cut < kMoreStepsThanAPut; ++cut) {
    PowerCutDisk disk;
    LocalStore store("/a", disk);
    disk.CutAt(cut);
    const bool done = store.Put("c/d/k", {"content"}).ok();
    disk.Reboot(GetParam());
    const std::vector<std::string> keys = *store.List("");
    for (const std::string& key : keys) {
      EXPECT_TRUE(IsLeftover(key) || key == "c/d/k") << key;
      EXPECT_TRUE(!done || key == "c/d/k" || GetParam() != Loses::kNothing) << key;
    }
    ASSERT_TRUE(store.DeleteTree("c").ok());
    EXPECT_TRUE(store.List("")->empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Loses, PowerCut,
                         testing::Values(Loses::kNothing, Loses::kAllUnsynced, Loses::kUnsyncedContents));

TEST(LocalStore, DeletedStaysDeletedAfterAPowerCut) {
  PowerCutDisk disk;
  LocalStore store("/a", disk);
  ASSERT_TRUE(store.Put("c/k", {"x"}).ok());
  ASSERT_TRUE(store.Delete("c/k").ok());
  disk.Reboot(Loses::kAllUnsynced);
  EXPECT_EQ(Content(store, "c/k"), "NOT_FOUND");
}

TEST(LocalStore, AFullDiskIsResourceExhaustedAndLeavesTheOldContentAndNothingElse) {
  TempDir dir;
  LocalStore store(dir.path());
  ASSERT_TRUE(store.Put("k", {"old"}).ok());
  // The kernel itself rejects the write: files may have at most 64 KiB.
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Cleanup restore = [&] {
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, old_handler);
  };
  const absl::Status status = store.Put("k", {std::string(1 << 20, 'x')});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(dir.path()), HasSubstr("File too large")));
  EXPECT_EQ(Content(store, "k"), "old");
  EXPECT_EQ(*ListDir(dir.path()), std::vector<std::string>{"k"});
}

TEST(LocalStore, ForeignFilesAreNotListedAndLinksNotFollowedWhenDeleting) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("precious"), "x").ok());
  LocalStore store(dir.Path("root"));
  ASSERT_TRUE(store.Put("a/k", {"x"}).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("root/a/my notes.txt"), "x").ok());
  std::filesystem::create_symlink(dir.path(), dir.Path("root/a/link"));
  EXPECT_THAT(*store.List(""), testing::ElementsAre("a/k", "a/link"));
  ASSERT_TRUE(store.DeleteTree("a").ok());
  EXPECT_TRUE(PathExists(dir.Path("precious")));
  EXPECT_FALSE(PathExists(dir.Path("root/a")));
}

TEST(LocalStore, AFileWhereAFolderShouldBeIsAnErrorThatNamesIt) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("file"), "x").ok());
  LocalStore store(dir.Path("file/root"));
  EXPECT_THAT(std::string(store.Put("k", {"x"}).message()), HasSubstr(dir.Path("file")));
}

}  // namespace
}  // namespace composer
