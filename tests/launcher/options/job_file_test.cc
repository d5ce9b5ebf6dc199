// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

TEST(JobFileTest, ARunFolderBelongsToOneFile) {
  TempDir dir;
  const std::string run = dir.path(), one = dir.Path("one.yaml"), other = dir.Path("other.yaml");
  for (const std::string& path : {one, other}) ASSERT_TRUE(AtomicWriteFile(path, "seed: 1\n").ok());
  EXPECT_TRUE(CheckJobFile(run, one).ok()) << "nothing is remembered yet";
  ASSERT_TRUE(RememberJobFile(run, one).ok());
  EXPECT_TRUE(CheckJobFile(run, one).ok());
  std::filesystem::create_symlink(one, dir.Path("link.yaml"));
  EXPECT_TRUE(CheckJobFile(run, dir.Path("link.yaml")).ok()) << "the same file by another name";
  const absl::Status refused = CheckJobFile(run, other);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("belongs to " + one + ", not to " + other));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("run_name=NAME"));
  ASSERT_TRUE(RemoveFile(one).ok());
  EXPECT_TRUE(CheckJobFile(run, other).ok()) << "the file was moved";
}

}  // namespace
}  // namespace composer
