// SPDX-License-Identifier: Apache-2.0
#include "storage/upload_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(WorthRetrying, NotWhatStaysWrong) {
  EXPECT_TRUE(WorthRetrying(absl::UnavailableError("")));
  EXPECT_TRUE(WorthRetrying(absl::InternalError("")));
  EXPECT_FALSE(WorthRetrying(absl::PermissionDeniedError("")));
  EXPECT_FALSE(WorthRetrying(absl::NotFoundError("")));
  EXPECT_FALSE(WorthRetrying(absl::InvalidArgumentError("")));
}

// A store whose Puts wait until they may continue.
class GatedStore final : public ObjectStore {
 public:
  absl::Status Put(const std::string& key, Pieces pieces) override {
    began.Notify();
    gate.WaitForNotification();
    return inner.Put(key, pieces);
  }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override { return inner.PutIfAbsent(key, pieces); }
  absl::StatusOr<int64_t> Size(const std::string& key) override { return inner.Size(key); }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    return inner.Read(key, offset, into);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return inner.List(folder); }
  absl::Status Delete(const std::string& key) override { return inner.Delete(key); }
  absl::Status DeleteTree(const std::string& folder) override { return inner.DeleteTree(folder); }
  std::string Location(const std::string& key) const override { return inner.Location(key); }

  MemoryStore inner;
  struct Once {  // a Notification that may be notified again
    void Notify() {
      if (!notification.HasBeenNotified()) notification.Notify();
    }
    absl::Notification notification;
  } began;
  absl::Notification gate;
};

class Uploads : public testing::Test {
 protected:
  std::string Staged(const std::string& content) {
    const std::string path = dir_.Path(absl::StrCat("staged-", ++count_));
    EXPECT_TRUE(AtomicWriteFile(path, content).ok());
    return path;
  }
  std::string Content(const std::string& key) { return GetObject(*store_, key, 1 << 20).value_or("nothing"); }

  TempDir dir_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  std::shared_ptr<FaultStore> faults_ = std::make_shared<FaultStore>(*store_);
  UploadQueueOptions options_{.retry = {.base = absl::Milliseconds(1), .max_tries = 3}};
  int count_ = 0;
};

TEST_F(Uploads, FilesArriveAndTheStagedOnesGo) {
  UploadQueue queue(store_, {.threads = 3});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(queue.Add(absl::StrCat("a/", i), Staged(absl::StrCat("content ", i))).ok());
  ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  EXPECT_EQ(Content("a/19"), "content 19");
  EXPECT_EQ(store_->List("a")->size(), 20u);
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
  EXPECT_TRUE(queue.TakeFailures().ok());
}

TEST_F(Uploads, ABusyStoreIsAskedAgain) {
  faults_->FailCalls(0, 2, absl::UnavailableError("503"));
  UploadQueue queue(faults_, options_);
  ASSERT_TRUE(queue.Add("x", Staged("content")).ok());
  ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  EXPECT_TRUE(queue.TakeFailures().ok());
  EXPECT_EQ(Content("x"), "content");
  EXPECT_EQ(faults_->calls(), 3);
}

TEST_F(Uploads, WhatFailsForGoodIsReportedOnceWithItsPlace) {
  faults_->FailCalls(0, 6, absl::UnavailableError("503"));
  UploadQueue queue(faults_, options_);
  ASSERT_TRUE(queue.Add("x", Staged("1")).ok());
  ASSERT_TRUE(queue.Add("y", Staged("2")).ok());
  ASSERT_TRUE(queue.Add("z", Staged("3")).ok());
  ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  const absl::Status failures = queue.TakeFailures();
  EXPECT_EQ(failures.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failures.message()),
              testing::AllOf(HasSubstr("2 uploads failed, the first: "), HasSubstr(store_->Location("x"))));
  EXPECT_TRUE(queue.TakeFailures().ok());
  EXPECT_EQ(Content("z"), "3");
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
}

TEST_F(Uploads, AWrongCredentialIsNotTriedAgain) {
  faults_->FailCalls(0, 99, absl::PermissionDeniedError("403"));
  UploadQueue queue(faults_, options_);
  ASSERT_TRUE(queue.Add("x", Staged("1")).ok());
  ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  EXPECT_EQ(queue.TakeFailures().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(faults_->calls(), 1);
}

TEST_F(Uploads, OfAKeyTheNewestContentStaysAndTheQueueIsBounded) {
  const auto gated = std::make_shared<GatedStore>();
  {
    UploadQueue queue(gated, {.threads = 4, .max_waiting = 2});
    ASSERT_TRUE(queue.Add("x", Staged("1")).ok());
    gated->began.notification.WaitForNotification();
    ASSERT_TRUE(queue.Add("x", Staged("2")).ok());  // waits for the first although three threads are free
    ASSERT_TRUE(queue.Add("x", Staged("3")).ok());
    EXPECT_EQ(queue.Flush(absl::Milliseconds(10)).code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(ListDir(dir_.path())->size(), 2u);
    gated->gate.Notify();
    ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  }
  EXPECT_EQ(*GetObject(gated->inner, "x", 10), "3");
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
}

TEST_F(Uploads, MoreThanMayWaitAreRefused) {
  const auto gated = std::make_shared<GatedStore>();
  {
    UploadQueue queue(gated, {.threads = 1, .max_waiting = 1});
    ASSERT_TRUE(queue.Add("a", Staged("1")).ok());
    gated->began.notification.WaitForNotification();
    ASSERT_TRUE(queue.Add("b", Staged("2")).ok());
    const absl::Status refused = queue.Add("c", Staged("3"));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("1 files wait already"));
    gated->gate.Notify();
    ASSERT_TRUE(queue.Flush(absl::Seconds(20)).ok());
  }
  EXPECT_EQ(gated->inner.List("")->size(), 2u);
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
}

// Regression test for R13: a large file was read into the memory of the training process.
TEST_F(Uploads, ALargeFileTakesNoMemory) {
  constexpr int64_t kBytes = int64_t{512} << 20;
  class Measuring final : public FaultStore {
   public:
    using FaultStore::FaultStore;
    absl::Status Put(const std::string& key, Pieces pieces) override {
      for (const absl::string_view piece : pieces) bytes += static_cast<int64_t>(piece.size());
      anonymous = AnonymousBytes();
      return absl::OkStatus();
    }
    static int64_t AnonymousBytes() {
      for (const absl::string_view line : absl::StrSplit(*ReadFile("/proc/self/status"), '\n')) {
        int64_t kilobytes = 0;
        const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty());
        if (words.size() > 1 && words[0] == "RssAnon:" && absl::SimpleAtoi(words[1], &kilobytes))
          return kilobytes << 10;
      }
      return -1;
    }
    int64_t bytes = 0, anonymous = 0;
  };
  const auto store = std::make_shared<Measuring>(*store_);
  const std::string path = Staged("");
  ASSERT_EQ(truncate(path.c_str(), kBytes), 0);
  const int64_t before = Measuring::AnonymousBytes();
  UploadQueue queue(store, options_);
  ASSERT_TRUE(queue.Add("x", path).ok());
  ASSERT_TRUE(queue.Flush(absl::Seconds(60)).ok());
  ASSERT_TRUE(queue.TakeFailures().ok());
  EXPECT_EQ(store->bytes, kBytes);
  EXPECT_LT(store->anonymous - before, kBytes / 8);
}

// Regression test for R13: its thread continued after the program had ended.
TEST_F(Uploads, AStoreThatDoesNotAnswerIsGivenUpAndNoThreadIsLeft) {
  class Hanging final : public FaultStore {
   public:
    using FaultStore::FaultStore;
    absl::Status Put(const std::string& key, Pieces pieces) override {
      began.Notify();
      const bool told = given_up.WaitForNotificationWithTimeout(absl::Seconds(20));
      ended = true;
      return told ? absl::CancelledError("given up") : absl::OkStatus();
    }
    void GiveUp() override { given_up.Notify(); }
    absl::Notification began, given_up;
    std::atomic<bool> ended{false};
  };
  const auto store = std::make_shared<Hanging>(*store_);
  {
    options_.leave_limit = absl::ZeroDuration();
    UploadQueue queue(store, options_);
    ASSERT_TRUE(queue.Add("x", Staged("1")).ok());
    store->began.WaitForNotification();
  }
  EXPECT_TRUE(store->given_up.HasBeenNotified());
  EXPECT_TRUE(store->ended);
  EXPECT_EQ(store.use_count(), 1);
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
}

}  // namespace
}  // namespace composer
