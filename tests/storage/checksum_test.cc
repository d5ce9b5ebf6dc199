// SPDX-License-Identifier: Apache-2.0
#include "storage/checksum.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(Checksum, IsXxh3) {  // the same bytes by xxhsum -H3
  EXPECT_EQ(ChecksumText(Xxh3("")), "2d06800538d394c2");
  EXPECT_NE(Xxh3("a"), Xxh3("b"));
}

TEST(Checksum, HasOneSpelling) {
  EXPECT_EQ(ChecksumText(0x1f), "000000000000001f");
  EXPECT_EQ(ParseChecksum("000000000000001f"), 0x1fu);
  EXPECT_EQ(ParseChecksum("ffffffffffffffff"), ~uint64_t{0});
  for (const char* bad : {"", "1f", "000000000000001F", "00000000000000 1", "0x00000000000000", "0000000000000000f",
                          "000000000000000g"}) {
    EXPECT_FALSE(ParseChecksum(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace composer
