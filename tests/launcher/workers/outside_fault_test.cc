// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/outside_fault.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

TEST(OutsideFaultTest, Table) {
  struct Case {
    const char* text;
    const char* what;  // "" means none
    const char* path;
  };
  const Case cases[] = {
      {"", "", ""},
      {"cannot open /data/x: No such file or directory", "", ""},
      {"model.sizes: must be at least 1", "", ""},
      {"saving a checkpoint: cannot write /a/b.tmp-7: No space left on device", "No space left on device",
       "/a/b.tmp-7"},
      {"OSError: [Errno 28] No space left on device: '/a/b c'", "No space left on device", "/a/b c"},
      {"OSError: [Errno 122] Disk quota exceeded", "Disk quota exceeded", ""},
      {"cannot create folder /m/logs: Read-only file system", "Read-only file system", "/m/logs"},
      {"rank 3: cannot read relative/path: Input/output error", "Input/output error", ""},
      {"cannot stat /nfs/x: Stale file handle; more", "Stale file handle", "/nfs/x"},
  };
  for (const Case& c : cases) {
    const auto fault = FindOutsideFault(c.text);
    EXPECT_EQ(fault.has_value() ? fault->what : "", c.what) << c.text;
    EXPECT_EQ(fault.has_value() ? fault->path : "", c.path) << c.text;
  }
}

TEST(OutsideFaultTest, AStatusOfOursIsKnown) {
  EXPECT_TRUE(IsOutsideFault(ErrnoStatus(ENOSPC, "write", "/x")));
  EXPECT_TRUE(IsOutsideFault(ErrnoStatus(EROFS, "write", "/x")));
  EXPECT_FALSE(IsOutsideFault(ErrnoStatus(EACCES, "write", "/x")));
  EXPECT_FALSE(IsOutsideFault(absl::OkStatus()));
}

TEST(HasRoomTest, AFullFileSystemHasNoneUntilSomethingIsRemoved) {
  TempDir dir;
  const std::string disk = dir.Path("disk");
  std::filesystem::create_directory(disk);
  EXPECT_TRUE(HasRoom(disk + "/not/there/yet"));
  EXPECT_TRUE(std::filesystem::is_empty(disk)) << "it leaves nothing";
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "mounting is not permitted here";
  const absl::Cleanup unmount = [&disk] { umount2(disk.c_str(), MNT_DETACH); };
  EXPECT_TRUE(HasRoom(disk));
  std::ofstream(disk + "/fill") << std::string((2 << 20) - 4096, 'x');
  EXPECT_FALSE(HasRoom(disk));
  EXPECT_FALSE(HasRoom(disk + "/deeper/file"));
  std::filesystem::remove(disk + "/fill");
  EXPECT_TRUE(HasRoom(disk));
}

}  // namespace
}  // namespace composer
