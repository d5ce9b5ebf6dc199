// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/wire_number.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

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

TEST(WireNumber, ATensorOfNumbersHasTheSameLimbs) {
  std::vector<double> numbers = {
      0,     1,     -1.0 / 3, 2.302585092994046,    1e-9, -1e-14, 123456789.123456789, 7e15, 0x1p-96, -0x1p55, 0x1p56,
      1e-40, 1e300, -4096,    -0x1.fffffffffffffp51};
  for (int i = 0; i < 200; ++i) numbers.push_back(std::ldexp(std::sin(i * i), i - 120));
  const auto count = static_cast<int64_t>(numbers.size());
  const at::Tensor wires = WireNumber::PutAll(at::from_blob(numbers.data(), {count}, at::kDouble), WireNumber::Rates());
  ASSERT_EQ(wires.sizes(), (std::vector<int64_t>{count, WireNumber::kLength}));
  for (int64_t i = 0; i < count; ++i) {
    Wire one;
    WireNumber::Put(numbers[static_cast<size_t>(i)], one.data());
    for (int64_t k = 0; k < WireNumber::kLength; ++k)
      EXPECT_EQ(wires[i][k].item<float>(), one[static_cast<size_t>(k)]) << numbers[static_cast<size_t>(i)] << " " << k;
  }
}

TEST(WireNumber, NanAndInfinityOfATensorArrive) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor wires = WireNumber::PutAll(at::tensor({std::nan(""), infinity, -infinity}), WireNumber::Rates());
  EXPECT_TRUE(std::isnan(WireNumber::Get(static_cast<const float*>(wires[0].const_data_ptr()))));
  EXPECT_EQ(WireNumber::Get(static_cast<const float*>(wires[1].const_data_ptr())), infinity);
  EXPECT_EQ(WireNumber::Get(static_cast<const float*>(wires[2].const_data_ptr())), -infinity);
}

TEST(WireNumber, NanAndInfinityArrive) {
  EXPECT_TRUE(std::isnan(SumOf({1, std::nan("")})));
  EXPECT_EQ(SumOf({1, std::numeric_limits<double>::infinity()}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(SumOf({-std::numeric_limits<double>::infinity()}), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace composer
