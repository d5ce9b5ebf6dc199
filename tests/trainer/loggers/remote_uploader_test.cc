// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/remote_uploader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "storage/memory_store.h"
#include "tests/support/fault_store.h"
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
                                             .queue = {.first_delay = absl::Milliseconds(1)}});
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

}  // namespace
}  // namespace composer
