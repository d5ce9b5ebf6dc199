// Tests that pictures, tables and files are listed once, however often a run was started.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunFilesTest : public ::testing::Test {
 protected:
  RunFiles Files(bool lists_files, const std::string& checkpoints = "") {
    return RunFiles(
        {.run_folder = dir_.path(), .origin = {1, 1}, .lists_files = lists_files, .checkpoint_folder = checkpoints});
  }
  static Timestamp At(int64_t batch) {
    Timestamp time;
    time.batch = batch;
    return time;
  }
  std::string List() { return ReadFile(dir_.Path("files.jsonl")).value_or(""); }
  TempDir dir_;
};

TEST_F(RunFilesTest, PicturesAndTablesAreFilesWithALineEach) {
  RunFiles files = Files(false);
  ASSERT_TRUE(files.Start({}).ok());
  const std::vector<Image> images(2, Image{1, 2, 3, std::vector<uint8_t>(6, 7)});
  const Timestamp time = At(4);
  ASSERT_TRUE(files.WriteImages({time, "Images/../Train x", images}).ok());
  const std::vector<std::string> columns = {"text"};
  const std::vector<std::vector<std::string>> rows = {{"a"}};
  ASSERT_TRUE(files.WriteTable({time, "texts", columns, rows}).ok());
  ASSERT_TRUE(files.TakeFile("trace", dir_.Path("trace.json")).ok());
  ASSERT_TRUE(files.Close().ok());
  EXPECT_THAT(List(),
              HasSubstr(R"("kind":"image","name":"Images/../Train x/1","path":"media/Images/__/Train_x/1-ba4.png")"));
  EXPECT_THAT(List(), HasSubstr(R"("kind":"table","name":"texts","path":"media/texts-ba4.json")"));
  EXPECT_THAT(List(), Not(HasSubstr("trace"))) << "only if the job asks for files";
  EXPECT_THAT(*ReadFile(dir_.Path("media/Images/__/Train_x/0-ba4.png")), HasSubstr("PNG"));
  EXPECT_EQ(*ReadFile(dir_.Path("media/texts-ba4.json")), R"({"columns":["text"],"data":[["a"]]})");
}

TEST_F(RunFilesTest, FilesOfTheRunFolderAndTheNewestCheckpointAreListed) {
  ASSERT_TRUE(MakeDirs(dir_.Path("checkpoints/ep0-ba2/attempt-1")).ok());
  for (const char* path :
       {"config.yaml", "checkpoints/ep0-ba2/manifest.json", "checkpoints/ep0-ba2/attempt-1/rank0.safetensors"})
    ASSERT_TRUE(AtomicWriteFile(dir_.Path(path), "x").ok());
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("checkpoints/latest"), "ep0-ba2\n").ok());
  RunFiles files = Files(true, dir_.Path("checkpoints"));
  ASSERT_TRUE(files.Start({}).ok());
  ASSERT_TRUE(files.TakeFile("trace", dir_.Path("traces/1.json")).ok());
  ASSERT_TRUE(files.TakeFile("outside", "/etc/hosts").ok());
  ASSERT_TRUE(files.Close().ok());
  EXPECT_THAT(List(), HasSubstr(R"("kind":"file","name":"config.yaml","path":"config.yaml")"));
  EXPECT_THAT(List(), HasSubstr(R"("name":"trace","path":"traces/1.json")"));
  EXPECT_THAT(List(), Not(HasSubstr("outside")));
  EXPECT_THAT(List(), HasSubstr(R"("kind":"checkpoint","name":"ep0-ba2","path":"checkpoints/ep0-ba2/manifest.json")"));
  EXPECT_THAT(List(), HasSubstr(R"("path":"checkpoints/ep0-ba2/attempt-1/rank0.safetensors")"));
}

TEST_F(RunFilesTest, AResumeForgetsWhatIsDoneAgain) {
  const std::vector<Image> images(1, Image{1, 1, 1, {7}});
  {
    RunFiles files = Files(false);
    ASSERT_TRUE(files.Start({}).ok());
    for (const int64_t batch : {2, 4, 6}) {
      const Timestamp time = At(batch);
      ASSERT_TRUE(files.WriteImages({time, "a", images}).ok());
    }
  }
  RunFiles files = Files(false);
  ASSERT_TRUE(files.Start({.timestamp = At(4), .resumed = true}).ok());
  EXPECT_THAT(List(), HasSubstr("a-ba4.png"));
  EXPECT_THAT(List(), Not(HasSubstr("a-ba6.png")));
}

}  // namespace
}  // namespace composer
