// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/exact_sum.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "trainer/parallel/norms/power_sum.h"

namespace composer {
namespace {

using Limits = std::numeric_limits<double>;

double SumOf(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.Add(term);
  return sum.Total();
}

TEST(ExactSum, LosesNothing) {
  EXPECT_EQ(SumOf({}), 0);
  EXPECT_EQ(SumOf({1e300, 1e-300, 0.5}), 1e300);
  EXPECT_EQ(SumOf({Limits::denorm_min(), Limits::denorm_min()}), 2 * Limits::denorm_min());
  EXPECT_EQ(SumOf({Limits::min(), Limits::denorm_min()}), Limits::min() + Limits::denorm_min());
  EXPECT_EQ(SumOf({Limits::max()}), Limits::max());
  EXPECT_EQ(SumOf({Limits::max(), Limits::max()}), Limits::infinity()) << "as doubles";
  // In 2^53 + 1 + 1 each 1 is lost when added in double.
  EXPECT_EQ(SumOf({0x1p53, 1, 1}), 0x1p53 + 2);
  for (int exponent = -1074; exponent <= 1023; ++exponent)
    EXPECT_EQ(SumOf({std::ldexp(1, exponent)}), std::ldexp(1, exponent)) << exponent;
  std::vector<double> many(3'000'000, 0.1);
  EXPECT_NEAR(SumOf(many), 300000.0 + 3e6 * 5.55e-18, 1e-9);
}

TEST(ExactSum, IsTheSameInAnyOrderAndInParts) {
  std::mt19937_64 random(7);
  std::vector<double> terms;
  for (int i = 0; i < 5000; ++i)
    terms.push_back(std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 400) - 250));
  const double expected = SumOf(terms);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(SumOf(terms), expected);
    const size_t parts = 1 + random() % 8;
    std::vector<ExactSum> sums(parts);
    for (const double term : terms) sums[random() % parts].Add(term);
    std::vector<int64_t> words(ExactSum::kWords);
    for (ExactSum& sum : sums) {
      for (size_t i = 0; i < words.size(); ++i) words[i] += sum.words()[i];
    }
    ExactSum joined;
    joined.Set(words);
    EXPECT_EQ(joined.Total(), expected);
  }
}

TEST(ExactSum, NanAndInfinityStay) {
  EXPECT_EQ(SumOf({1, Limits::infinity(), 2}), Limits::infinity());
  EXPECT_TRUE(std::isnan(SumOf({1, Limits::infinity(), Limits::quiet_NaN()})));
}

// Tensors are cut at multiples of 32, like flat shards.
TEST(PowerSum, IsTheSameWhereverATensorIsCut) {
  torch::manual_seed(3);
  for (const int64_t numel : {1, 31, 32, 33, 100, 1000, 4097}) {
    const at::Tensor whole = torch::randn({numel});
    for (const double p : {1.0, 2.0, 3.0}) {
      ExactSum expected;
      AddPowers(whole.view({1, numel}), p, expected);
      const double total = expected.Total();
      const double torchs = whole.to(at::kDouble).abs().pow(p).sum().item<double>();
      EXPECT_NEAR(total, torchs, 1e-12 * torchs);
      for (const int64_t cut : {32, 64, 96, 992}) {
        if (cut >= numel) continue;
        ExactSum parts;
        AddPowers(whole.narrow(0, cut, numel - cut).clone(), p, parts);
        AddPowers(whole.narrow(0, 0, cut), p, parts);
        EXPECT_EQ(parts.Total(), total) << numel << " cut at " << cut << ", p " << p;
      }
    }
  }
  ExactSum doubles;
  AddPowers(torch::full({3}, 0.1, at::kDouble), 2, doubles);
  EXPECT_DOUBLE_EQ(doubles.Total(), 0.03);
}

}  // namespace
}  // namespace composer
