// SPDX-License-Identifier: Apache-2.0
#include "data/text/gzip_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class GzipFileTest : public ::testing::Test {
 protected:
  std::string WriteGzip(const std::string& text) {
    const std::string path = dir_.Path("x.gz");
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }
  std::string Text() const {
    std::string text;
    for (int64_t i = 0; text.size() < 6 << 20; ++i) text += std::to_string(i * 7919 % 10007);
    return text;
  }
  TempDir dir_;
};

TEST_F(GzipFileTest, ReadsPackedAndPlain) {
  EXPECT_EQ(*ReadMaybeGzipFile(WriteGzip(Text()), 1 << 30), Text());
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("plain"), "as it is").ok());
  EXPECT_EQ(*ReadMaybeGzipFile(dir_.Path("plain"), 100), "as it is");
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("empty"), "").ok());
  EXPECT_EQ(*ReadMaybeGzipFile(dir_.Path("empty"), 100), "");
}

TEST_F(GzipFileTest, RefusesDamage) {
  const std::string path = WriteGzip(Text());
  const std::string packed = *ReadFile(path);
  for (size_t keep : {packed.size() - 1, packed.size() - 9, packed.size() / 2, size_t{15}}) {
    ASSERT_TRUE(AtomicWriteFile(path, packed.substr(0, keep)).ok());
    const absl::Status status = ReadMaybeGzipFile(path, 1 << 30).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << keep;
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.gz: damaged or cut-off gzip file")) << keep;
  }
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // within the checksum
  ASSERT_TRUE(AtomicWriteFile(path, flipped).ok());
  EXPECT_EQ(ReadMaybeGzipFile(path, 1 << 30).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GzipFileTest, BoundsTheSizeAndNamesMissingFiles) {
  EXPECT_EQ(ReadMaybeGzipFile(WriteGzip(std::string(1 << 20, 'x')), 1000).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadMaybeGzipFile(dir_.Path("none"), 1000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadMaybeGzipFile(dir_.path(), 1000).ok());  // a folder
}

}  // namespace
}  // namespace composer
