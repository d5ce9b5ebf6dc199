// Packed files of torch.save: those that gzip, zstd and Python's tarfile made of a golden, and ours.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/packed_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "checkpoint/tools/weight_files.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

std::string PackedGolden(absl::string_view name) {
  return absl::StrCat(COMPOSER_SOURCE_DIR "/tests/golden/weights/", name);
}

TEST(PackedFile, WhatOtherProgramsPackedIsRead) {
  const std::string plain = ReadFile(PackedGolden("state_dict.pt")).value();
  for (const char* name : {"packed.pt.gz", "packed.pt.lz4", "packed.pt.zst", "packed.tar", "packed.tgz"}) {
    const auto file = OpenUnpacked(PackedGolden(name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->bytes(), plain) << name;
    EXPECT_EQ(ReadWeights(PackedGolden(name), "")->tensors.size(), 7u) << name;
  }
}

TEST(PackedFile, OursAreReadBackAndEveryTruncationIsFound) {
  const TempDir dir;
  std::string plain;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&plain, i * i, " ");
  for (const char* name : {"x.pt.gz", "x.pt.lz4", "x.pt.zst", "x.tar", "x.tar.gz", "x.tgz", "x.tar.lz4", "x.tar.zst"}) {
    const std::string path = dir.Path(name);
    EXPECT_TRUE(IsTorchFileName(path)) << name;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    const auto write = [&](int memory) { return WriteAll(memory, plain, "memory"); };
    ASSERT_TRUE(WritePacked(fd, path, PackingOfName(path).value(), write).ok()) << name;
    close(fd);
    EXPECT_EQ(OpenUnpacked(path).value()->bytes(), plain) << name;
    const std::string packed = ReadFile(path).value();
    if (!absl::EndsWith(name, ".tar")) {
      EXPECT_LT(packed.size(), plain.size()) << name;
    }
    for (size_t size = 600; size < packed.size() - 1024; size += 997) {
      ASSERT_TRUE(AtomicWriteFile(dir.Path("cut"), packed.substr(0, size), {.sync = false}).ok());
      EXPECT_EQ(OpenUnpacked(dir.Path("cut")).status().code(), absl::StatusCode::kDataLoss) << name << " " << size;
    }
  }
}

TEST(PackedFile, AFileThatFillsTheMemoryIsRefused) {
  const auto bomb = OpenUnpacked(PackedGolden("bomb.pt.zst"));
  EXPECT_EQ(bomb.status().code(), absl::StatusCode::kResourceExhausted) << bomb.status();
}

TEST(PackedFile, NamesOfWhatIsNotWrittenAreRefused) {
  for (const char* name : {"x.pt.bz2", "x.pt.xz", "x.pt.lzma", "x.pt.lzo"})
    EXPECT_THAT(std::string(PackingOfName(name).status().message()), HasSubstr("neither written nor read")) << name;
  EXPECT_TRUE(PackingOfName("folder/x.pt")->IsNone());
  EXPECT_FALSE(IsTorchFileName("x.safetensors.gz"));
}

}  // namespace
}  // namespace composer
