// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/run_identity.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

TEST(RunIdentity, StaysWithTheFolderAndACopyHasNone) {
  TempDir dir;
  const std::string run = dir.Path("runs/a");
  EXPECT_EQ(ReadRunId(run), "");
  const std::string id = MakeRunId(run).value();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(ReadRunId(run), id);
  std::filesystem::copy(run, dir.Path("runs/copy"), std::filesystem::copy_options::recursive);
  EXPECT_EQ(ReadRunId(dir.Path("runs/copy")), "");
  EXPECT_NE(MakeRunId(dir.Path("runs/copy")).value(), id);
  std::filesystem::rename(run, dir.Path("runs/moved"));
  EXPECT_EQ(ReadRunId(dir.Path("runs/moved")), id);
  EXPECT_EQ(ReadRunId(""), "");
}

TEST(RunIdentity, OfAFolderByItsPathOrItsInode) {
  const RunIdentity recorded = {"0123456789abcdef", "/runs/a", 7};
  EXPECT_TRUE(IsSameFolder(recorded, "/runs/a", 8)) << "restored from a backup";
  EXPECT_TRUE(IsSameFolder(recorded, "/mnt/a", 7)) << "mounted elsewhere";
  EXPECT_FALSE(IsSameFolder(recorded, "/runs/b", 8)) << "a copy";
  EXPECT_FALSE(IsSameFolder({"0123456789abcdef", "/runs/a", 0}, "/runs/b", 0));
}

TEST(RunIdentity, HostileTextIsNoIdentity) {
  const RunIdentity identity = {"0123456789abcdef", "/runs/\"a\"\n", 7};
  const std::string text = SerializeRunIdentity(identity);
  EXPECT_EQ(ParseRunIdentity(text)->path, identity.path);
  for (const std::string& bad : {std::string(), std::string("{}"), std::string("[1]"), text + "x", text.substr(0, 20),
                                 std::string(R"({"run_id":"../../x","path":"","inode":1})"),
                                 std::string(R"({"run_id":"0123456789abcdef","path":1,"inode":1})"),
                                 std::string(R"({"run_id":"0123456789abcdef","path":"","inode":-1})")})
    EXPECT_FALSE(ParseRunIdentity(bad).ok()) << bad;
}

}  // namespace
}  // namespace composer
