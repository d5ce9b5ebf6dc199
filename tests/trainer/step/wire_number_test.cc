// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/wire_number.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace composer {
namespace {

using Wire = std::array<float, WireNumber::kLength>;

double SumOf(const std::vector<double>& numbers) {
  Wire sum{};
  for (const double number : numbers) {
    Wire one;
    WireNumber::Put(number, one.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  }
  return WireNumber::Get(sum.data());
}

TEST(WireNumber, OneNumberArrivesUnchanged) {
  for (const double number : {0.0, 1.0, -1.0 / 3, 2.302585092994046, 1e-9, -1e-14, 123456789.123456789, 7e15, 0x1p-96})
    EXPECT_EQ(SumOf({number}), number);
  EXPECT_EQ(SumOf({1e-40}), 0) << "below 2^-100";
  EXPECT_EQ(SumOf({1e20}), static_cast<double>(1e20F));
}

TEST(WireNumber, SumsAreExactInAnyOrder) {
  const double third = 1.0 / 3, tiny = 0x1p-52;
  EXPECT_EQ(SumOf({third, -third, tiny}), tiny);
  EXPECT_EQ(SumOf({tiny, third, -third}), tiny);
  EXPECT_EQ(SumOf(std::vector<double>(4096, 0x1.fffffffffffffp51)), 4096 * 0x1.fffffffffffffp51);
}

TEST(WireNumber, NanAndInfinityArrive) {
  EXPECT_TRUE(std::isnan(SumOf({1, std::nan("")})));
  EXPECT_EQ(SumOf({1, std::numeric_limits<double>::infinity()}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(SumOf({-std::numeric_limits<double>::infinity()}), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace composer
