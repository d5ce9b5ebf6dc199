// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/remote_uploader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "storage/memory_store.h"
#include "tests/support/fake_bucket.h"
#include "tests/support/fault_store.h"
#include "tests/support/gate_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RemoteKey, TakesWhatAStoreTakes) {
  EXPECT_EQ(RemoteKey("/my run/logs/a b.txt"), "my_run/logs/a_b.txt");
  EXPECT_EQ(RemoteKey("../../.hidden//x"), "_./_./_hidden/x");
  EXPECT_EQ(RemoteKey("traces/ep0-ba1.json"), "traces/ep0-ba1.json");
  for (const char* name : {"/my run/logs/a b.txt", "../../.hidden//x", "\xc3\xa4/%2e"})
    EXPECT_TRUE(CheckKey(RemoteKey(name)).ok());
}

class Uploader : public testing::Test {
 protected:
  RemoteUploader Make(std::shared_ptr<ObjectStore> store) {
    return RemoteUploader(std::move(store), {.run_folder = dir_.Path("run"),
                                             .staging_folder = dir_.Path("run/.uploads"),
                                             .files = {"metrics.jsonl", "logs/*"},
                                             .interval = 10,
                                             .key_format = "fashion/{remote_file_name}",
                                             .flush_timeout = absl::Seconds(20),
                                             .queue = {.retry = {.base = absl::Milliseconds(1), .max_tries = 3}}});
  }
  void WriteFile(const std::string& name, const std::string& content) {
    ASSERT_TRUE(MakeDirs(DirName(dir_.Path("run/" + name))).ok());
    ASSERT_TRUE(AtomicWriteFile(dir_.Path("run/" + name), content).ok());
  }
  absl::Status Record(RemoteUploader& uploader, int64_t batch) {
    Timestamp now;
    now.batch = batch;
    return uploader.Write({now, {}});
  }
  std::string Content(const std::string& key) { return GetObject(*store_, key, 1 << 20).value_or("nothing"); }

  TempDir dir_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(Uploader, FilesOfTheLoggerAndOfTheRunFolderArrive) {
  WriteFile("metrics.jsonl", "1\n");
  WriteFile("logs/rank0.txt", "log");
  WriteFile("checkpoints/ep0-ba1/manifest.json", "not of these");
  WriteFile("trace.json", "trace");
  RemoteUploader uploader = Make(store_);
  ASSERT_TRUE(uploader.CheckStore().ok());
  ASSERT_TRUE(uploader.TakeFile("traces/trace.json", dir_.Path("run/trace.json")).ok());
  WriteFile("trace.json", "changed after the return");
  ASSERT_TRUE(uploader.Close().ok());
  EXPECT_THAT(*store_->List(""), ElementsAre("fashion/logs/rank0.txt", "fashion/metrics.jsonl",
                                             "fashion/traces/trace.json", "fashion/uploads_begin_here.txt"));
  EXPECT_EQ(Content("fashion/traces/trace.json"), "trace");
  EXPECT_FALSE(PathExists(dir_.Path("run/.uploads")));
}

TEST_F(Uploader, WhatWasTakenCanBeFetchedByThisRunAndTheNext) {
  const std::string large(20 << 20, 'x');  // more than one piece
  const std::string path = dir_.Path("fetched");
  WriteFile("large", large);
  WriteFile("small", "old");
  {
    RemoteUploader uploader = Make(store_);
    ASSERT_TRUE(uploader.TakeFile("weights/large", dir_.Path("run/large")).ok());
    ASSERT_TRUE(uploader.TakeFile("small", dir_.Path("run/small")).ok());
    ASSERT_TRUE(uploader.FetchFile("weights/large", path).ok()) << "after its upload";
    EXPECT_TRUE(*ReadFile(path) == large);
    ASSERT_TRUE(uploader.Close().ok());
  }
  RemoteUploader next = Make(store_);
  ASSERT_TRUE(next.FetchFile("small", path).ok());
  EXPECT_EQ(*ReadFile(path), "old") << "it replaces the file";
  EXPECT_EQ(next.FetchFile("nothing", path).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(*ReadFile(path), "old") << "and leaves it otherwise";
  const auto faults = std::make_shared<FaultStore>(*store_);
  RemoteUploader cut = Make(faults);
  faults->FailCalls(1, 1 << 20, absl::UnavailableError("503"));
  EXPECT_EQ(cut.FetchFile("weights/large", dir_.Path("cut")).code(), absl::StatusCode::kUnavailable);
  const std::vector<std::string> names = ListDir(dir_.path()).value();
  for (const std::string& name : names) EXPECT_THAT(name, testing::Not(HasSubstr("cut")));
}

TEST_F(Uploader, ChangedFilesGoEveryIntervalAndAtTheEnd) {
  RemoteUploader uploader = Make(store_);
  WriteFile("metrics.jsonl", "1\n");
  ASSERT_TRUE(Record(uploader, 9).ok());
  ASSERT_TRUE(Record(uploader, 10).ok());
  WriteFile("metrics.jsonl", "1\n2\n");
  ASSERT_TRUE(Record(uploader, 11).ok());
  ASSERT_TRUE(uploader.Close().ok());
  EXPECT_EQ(Content("fashion/metrics.jsonl"), "1\n2\n");
}

TEST_F(Uploader, FailuresShowAtTheNextRecordOrAtTheEnd) {
  const auto faults = std::make_shared<FaultStore>(*store_);
  faults->FailCalls(0, 1 << 20, absl::PermissionDeniedError("403"));
  RemoteUploader uploader = Make(faults);
  EXPECT_THAT(std::string(uploader.CheckStore().message()), HasSubstr("remote_uploader_downloader cannot write"));
  WriteFile("metrics.jsonl", "1\n");
  EXPECT_EQ(uploader.Close().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(uploader.TakeFile("gone", dir_.Path("gone")).code(), absl::StatusCode::kNotFound);
}

// With 503s and lost requests and answers, by count, every file still arrives with its last content.
TEST_F(Uploader, AStoreThatFailsNowAndThenGetsEverything) {
  struct Bucket {
    FakeBucket bucket;
    S3Store store = bucket.Store();
  };
  const auto owned = std::make_shared<Bucket>();
  const std::shared_ptr<ObjectStore> store(owned, &owned->store);
  FakeS3& s3 = owned->bucket.server;
  s3.set_script([](int number, const HttpRequest&) {
    return number % 3 == 0   ? FakeS3::Fault::kSlowDown
           : number % 5 == 0 ? FakeS3::Fault::kLostAnswer
           : number % 7 == 0 ? FakeS3::Fault::kReset
                             : FakeS3::Fault::kNone;
  });
  RemoteUploader uploader = Make(store);
  for (int i = 0; i < 20; ++i) WriteFile(absl::StrCat("logs/", i), absl::StrCat("log ", i));
  ASSERT_TRUE(Record(uploader, 10).ok());
  WriteFile("metrics.jsonl", "all\n");
  const absl::Status closed = uploader.Close();
  ASSERT_TRUE(closed.ok()) << closed;
  EXPECT_EQ(s3.objects().size(), 21u);
  EXPECT_EQ(s3.objects().at("/bucket/runs/mine/fashion/metrics.jsonl"), "all\n");
  EXPECT_EQ(s3.objects().at("/bucket/runs/mine/fashion/logs/19"), "log 19");
}

TEST_F(Uploader, InHasteWhatDoesNotArriveIsNamed) {
  struct Closed {
    MemoryStore memory;
    GateStore gate{memory};
  };
  const auto closed_store = std::make_shared<Closed>();  // does not answer
  const std::shared_ptr<GateStore> gate(closed_store, &closed_store->gate);
  WriteFile("metrics.jsonl", "1\n");
  WriteFile("logs/rank0.txt", "log");
  {
    RemoteUploader uploader(gate, {.run_folder = dir_.Path("run"),
                                   .staging_folder = dir_.Path("run/.uploads"),
                                   .files = {"metrics.jsonl", "logs/*"},
                                   .key_format = "fashion/{remote_file_name}",
                                   .flush_timeout = absl::Hours(1),
                                   .hasty_flush_timeout = absl::Milliseconds(20),
                                   .in_haste = [] { return true; },
                                   .queue = {.leave_limit = absl::Milliseconds(20)}});
    const absl::Status closed = uploader.Close();
    EXPECT_EQ(closed.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(closed.message()),
                testing::AllOf(HasSubstr("2 files were not uploaded"),
                               HasSubstr("fashion/logs/rank0.txt, fashion/metrics.jsonl")));
  }  // does not wait for the hanging upload
  gate->Open();
}

}  // namespace
}  // namespace composer
