// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace composer {
namespace {

using testing::HasSubstr;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Sampling, ProbabilitiesAreThoseThatHuggingFacesWarpersLeave) {
  const nlohmann::json golden = nlohmann::json::parse(std::ifstream("tests/golden/generation.json"));
  for (const auto& row : golden["warped"]) {
    SamplingOptions options{
        .do_sample = true, .temperature = row["temperature"], .top_k = row["top_k"], .top_p = row["top_p"]};
    const std::vector<float> logits = row["logits"];
    const std::vector<double> expected = row["probabilities"], actual = TokenProbabilities(logits, options);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-12) << row.dump() << " token " << i;
  }
}

TEST(Sampling, TheTokenIsWhereTheSumOfProbabilitiesPassesTheUniformNumber) {
  struct Row {
    std::vector<float> logits;
    SamplingOptions options;
    double uniform;
    int64_t token;
  };
  const float one = std::log(1.0F), two = std::log(2.0F), five = std::log(5.0F);
  const SamplingOptions all{.do_sample = true, .top_k = 0};
  const Row rows[] = {
      {{one, five, two, two}, {}, 0.999, 1},         // greedy
      {{two, one, two}, {}, 0.999, 0},               // the first among equals
      {{one, five, two, two}, all, 0, 0},            // 0.1, 0.5, 0.2, 0.2
      {{one, five, two, two}, all, 0.0999, 0},       //
      {{one, five, two, two}, all, 0.1001, 1},       //
      {{one, five, two, two}, all, 0.61, 2},         //
      {{one, five, two, two}, all, 1 - 0x1p-53, 3},  //
      {{one, five, two, two}, {.do_sample = true, .top_k = 1}, 0.99, 1},
      {{one, five, two, two}, {.do_sample = true, .top_k = 2}, 0.99, 3},  // those equal to the last one kept stay
      {{one, five, two, two}, {.do_sample = true, .top_k = 0, .top_p = 0.6}, 0.99, 2},
      {{one, five, two, two}, {.do_sample = true, .temperature = 1e-3}, 0.999, 1},
      {{one, -kInf, five}, all, 0.2, 2},
      {{kNan, one, kNan}, all, 0.5, 1},
      {{kNan, one, two}, {}, 0.5, 2},
      {{kNan, kNan}, {}, 0.5, 0},
      {{kNan, kNan}, all, 0.5, 0},
      {{-kInf, -kInf}, all, 0.5, 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ChooseToken(row.logits, row.options, row.uniform), row.token)
        << testing::PrintToString(row.logits) << " k " << row.options.top_k << " p " << row.options.top_p << " u "
        << row.uniform;
  }
}

TEST(Sampling, UniformNumbersAreOfSeedSampleAndPlace) {
  double sum = 0, squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double uniform = TokenUniform(7, static_cast<uint64_t>(i % 100), static_cast<uint64_t>(i / 100));
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    sum += uniform;
    squares += uniform * uniform;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
  EXPECT_EQ(TokenUniform(1, 2, 3), TokenUniform(1, 2, 3));
  EXPECT_NE(TokenUniform(1, 2, 3), TokenUniform(1, 3, 2));
  EXPECT_NE(TokenUniform(1, 2, 3), TokenUniform(2, 2, 3));
}

TEST(Sampling, BadOptionsAreNamed) {
  EXPECT_TRUE(Validate(SamplingOptions{}).ok());
  EXPECT_THAT(Validate(SamplingOptions{.temperature = 0}).message(), HasSubstr("temperature must be above 0, got 0"));
  EXPECT_FALSE(Validate(SamplingOptions{.temperature = std::nan("")}).ok());
  EXPECT_THAT(Validate(SamplingOptions{.top_k = -1}).message(), HasSubstr("top_k must be at least 0"));
  EXPECT_THAT(Validate(SamplingOptions{.top_p = 0}).message(), HasSubstr("top_p must be above 0 and at most 1"));
  EXPECT_FALSE(Validate(SamplingOptions{.top_p = 1.01}).ok());
}

}  // namespace
}  // namespace composer
