// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "base/file.h"
#include "launcher/process/job_cgroup.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LeftoversTest : public testing::Test {
 protected:
  std::string Folder(const std::string& name) {
    std::filesystem::create_directories(dir_.Path(name));
    return dir_.Path(name);
  }
  std::string File(const std::string& name) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path(name), "x").ok());
    return dir_.Path(name);
  }
  // Clears as a launch an hour later would.
  std::vector<std::string> Clear(LeftoverPlaces places = {}, absl::Duration later = absl::Hours(1)) {
    if (places.temp_roots.empty()) places.temp_roots = {dir_.path()};
    return ClearLeftovers(places, absl::Now() + later);
  }

  TempDir dir_;
};

TEST_F(LeftoversTest, ATemporaryFolderGoesWhenItsOwnerIsDead) {
  const std::string folder = Folder("composer-aB3dEf");
  File("composer-aB3dEf/snapshot");
  const absl::StatusOr<int> lock = OwnTempFolder(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(Clear(), IsEmpty()) << "its owner lives";
  close(*lock);
  EXPECT_THAT(Clear({}, absl::Seconds(1)), IsEmpty()) << "its owner may be about to lock it";
  EXPECT_THAT(Clear(), ElementsAre(folder));
  EXPECT_FALSE(PathExists(folder));
}

TEST_F(LeftoversTest, WhatIsNotOursStays) {
  Folder("composer-abcdef");  // no owner file: belongs to someone else
  Folder("composer-1000");    // the registry
  close(*OwnTempFolder(Folder("other-abcdef")));
  close(*OwnTempFolder(Folder("composer-abcdefg")));
  close(*OwnTempFolder(Folder("target")));
  std::filesystem::create_directory_symlink(dir_.Path("target"), dir_.Path("composer-linked"));
  EXPECT_THAT(Clear(), IsEmpty());
  EXPECT_TRUE(PathExists(dir_.Path("target/.owner")));
}

TEST_F(LeftoversTest, UnfinishedFilesOfTheRunFolderGo) {
  const std::string run = Folder("run");
  const std::string unfinished = File("run/config.yaml.tmp-26747"), summary = File("run/summary.json.tmp-3-9");
  File("run/config.yaml");
  File("run/notes.tmp-later");
  EXPECT_THAT(Clear({.run_folder = run}), ElementsAre(unfinished, summary));
  EXPECT_THAT(*ListDir(run), ElementsAre("config.yaml", "notes.tmp-later"));
}

TEST_F(LeftoversTest, AnEmptyCgroupGoesOneWithAProcessStays) {
  const std::string root = JobCgroupRoot();
  std::string empty = MakeJobCgroup("composer-Lft001"), full = MakeJobCgroup("composer-Lft002");
  if (empty.empty() || full.empty()) GTEST_SKIP() << "no cgroup v2 below ours can be made here";
  const pid_t child = ForkInto(full);
  if (child == 0) {
    while (true) pause();
  }
  const auto removed = Clear({.cgroup_root = root});
  EXPECT_FALSE(PathExists(empty));
  EXPECT_TRUE(full.empty() || PathExists(full));
  kill(child, SIGKILL);
  RemoveCgroup(full);
}

}  // namespace
}  // namespace composer
