// SPDX-License-Identifier: Apache-2.0
#include "data/order/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace composer {
namespace {

using testing::HasSubstr;

TEST(Mixture, ProportionsAreExact) {
  for (const std::vector<double>& weights : std::vector<std::vector<double>>{
           {3, 1}, {0.7, 0.3}, {1}, {5, 3, 2, 1}, {0.123456, 0.876544}, {1e-3, 10}, {1.0 / 3, 2.0 / 3}}) {
    const Mixture mixture = Mixture::Create({{0, weights}}).value();
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int64_t> counts(weights.size(), 0);
    for (int64_t place = 0; place < 50'000; ++place) {
      const MixturePlace at = mixture.At(place);
      ASSERT_EQ(at.number, counts[at.source]++) << "no sample is passed over or repeated";
      for (size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / sum * static_cast<double>(place + 1);
        // Weights that are not decimals are met to one in a million.
        ASSERT_LE(std::abs(static_cast<double>(counts[i]) - share),
                  1.1 * static_cast<double>(weights.size() - 1) + 0.05);
      }
    }
  }
  const Mixture tenths = Mixture::Create({{0, {0.7, 0.3}}}).value();
  EXPECT_EQ(tenths.At(10'000'000'000).number, 7'000'000'000) << "also far away";
}

TEST(Mixture, EverySourceGoesOnWhereWeightsChange) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<MixtureChange> changes;
    int64_t at = 0;
    for (uint64_t parts = 1 + random() % 4; parts > 0; --parts) {
      changes.push_back({at, {}});
      for (int i = 0; i < 3; ++i) changes.back().weights.push_back(static_cast<double>(1 + random() % 30) / 10);
      at += 1 + static_cast<int64_t>(random() % 500);
    }
    const Mixture mixture = Mixture::Create(changes).value();
    std::vector<int64_t> counts(3, 0);
    for (int64_t place = 0; place < at + 300; ++place) {
      const MixturePlace found = mixture.At(place);
      ASSERT_EQ(found.number, counts[found.source]++);
    }
  }
}

TEST(Mixture, ErrorsSayWhatIsWrong) {
  const auto error = [](const std::vector<MixtureChange>& changes) {
    return std::string(Mixture::Create(changes).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("at least one source"));
  EXPECT_THAT(error({{0, {1, -2}}}), HasSubstr("a weight is -2"));
  EXPECT_THAT(error({{0, {1, 2}}, {5, {1}}}), HasSubstr("there are 2 sources, but 1 weights at sample 5"));
  EXPECT_THAT(error({{0, {1}}, {5, {1}}, {5, {1}}}), HasSubstr("the change at sample 5 is not behind"));
}

}  // namespace
}  // namespace composer
