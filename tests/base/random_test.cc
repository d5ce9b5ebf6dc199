// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace composer {
namespace {

TEST(Random, BytesAndDigitsAreAsManyAsAskedFor) {
  EXPECT_EQ(RandomBytes(256).size(), 256);
  EXPECT_THAT(RandomHex(8), testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(RandomHex(0), "");
}

TEST(Random, NothingComesTwice) {
  std::set<uint64_t> bits;
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    bits.insert(RandomBits());
    names.insert(RandomHex(8));
  }
  EXPECT_EQ(bits.size(), 1000);
  EXPECT_EQ(names.size(), 1000);
}

}  // namespace
}  // namespace composer
