// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

TEST(File, AtomicWriteReplacesAndLeavesNoTemporary) {
  TempDir dir;
  const std::string path = dir.Path("a.txt");
  ASSERT_TRUE(AtomicWriteFile(path, "one").ok());
  ASSERT_TRUE(AtomicWriteFile(path, "two").ok());
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ(*ListDir(dir.path()), std::vector<std::string>{"a.txt"});
}

// The temporary file may belong to another container, whose process has the same pid.
TEST(File, AtomicWriteTakesNoOnesTemporaryFile) {
  TempDir dir;
  const std::string path = dir.Path("a.txt"), others = absl::StrCat(path, ".tmp-", getpid());
  ASSERT_TRUE(MakeDirs(others).ok());
  EXPECT_TRUE(AtomicWriteFile(path, "one").ok());
  EXPECT_TRUE(IsDirectory(others));
}

TEST(File, ErrorsNameThePathAndHaveTheRightCode) {
  TempDir dir;
  const auto missing = ReadFile(dir.Path("none"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("none"), std::string::npos);
  ASSERT_TRUE(AtomicWriteFile(dir.Path("big"), std::string(100, 'x')).ok());
  EXPECT_EQ(ReadFile(dir.Path("big"), 99).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AtomicWriteFile(dir.Path("no/such/folder"), "x").code(), absl::StatusCode::kNotFound);
}

TEST(File, FullDiskIsResourceExhausted) {
  EXPECT_EQ(ErrnoStatus(ENOSPC, "cannot write", "x").code(), absl::StatusCode::kResourceExhausted);
}

TEST(File, Paths) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(BaseName("x/y.tar.gz"), "y.tar.gz");
  EXPECT_EQ(Stem("x/train.yaml"), "train");
  EXPECT_EQ(DirName("x/train.yaml"), "x");
  EXPECT_EQ(AbsolutePath("/a/./b/../c"), "/a/c");
}

TEST(File, TreesAreMadeListedAndRemoved) {
  TempDir dir;
  ASSERT_TRUE(MakeDirs(dir.Path("a/b/c")).ok());
  EXPECT_TRUE(IsDirectory(dir.Path("a/b")));
  EXPECT_TRUE(RemoveTree(dir.Path("a")).ok());
  EXPECT_FALSE(PathExists(dir.Path("a")));
  EXPECT_TRUE(RemoveFile(dir.Path("a")).ok());
}

}  // namespace
}  // namespace composer
