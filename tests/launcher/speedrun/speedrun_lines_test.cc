// Tests `composer speedrun` without its runs: Welch's test against closed forms, lines of finished runs, the table.
// tests/integration/speedrun_test.py runs it. SPDX-License-Identifier: Apache-2.0
#include "launcher/speedrun/speedrun_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "launcher/speedrun/speedrun_command.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(Welch, AgreesWithClosedForms) {
  const auto p_value = [](const std::vector<double>& a, const std::vector<double>& b) {
    return WelchPValue(MomentsOf(a), MomentsOf(b));
  };
  EXPECT_NEAR(IncompleteBeta(2, 3, 0.4), 0.5248, 1e-12);
  EXPECT_NEAR(IncompleteBeta(0.5, 0.5, 0.5), 0.5, 1e-12);
  EXPECT_NEAR(IncompleteBeta(1, 0.5, 0.75), 0.5, 1e-12);
  EXPECT_NEAR(IncompleteBeta(40, 0.5, 0.999), 1 - IncompleteBeta(0.5, 40, 0.001), 1e-12);
  // One degree of freedom is Cauchy's distribution: p = 1 - 2/pi atan(t); here t = 1, since nothing else varies.
  EXPECT_NEAR(p_value({0, 2}, {2, 2}), 0.5, 1e-12);
  // Two of the same variance and number have n + m - 2 = 4: of t = 3 / sqrt(2/3) by its closed form.
  const double t = 3 / std::sqrt(2.0 / 3), x = t * t / (1 + t * t / 4) / 12;
  const double expected = 1 - 2 * 0.375 * (t / std::sqrt(1 + t * t / 4)) * (1 - x);
  EXPECT_NEAR(p_value({1, 2, 3}, {4, 5, 6}), expected, 1e-12);
  EXPECT_TRUE(std::isnan(p_value({1}, {2, 3})));
  EXPECT_EQ(p_value({1, 1}, {1, 1}), 1);
  EXPECT_EQ(p_value({1, 1}, {2, 2}), 0);
}

TEST(Welch, MomentsAreTheSamples) {
  const Moments moments = MomentsOf({2, 4, 9});
  EXPECT_EQ(moments.count, 3u);
  EXPECT_DOUBLE_EQ(moments.mean, 5);
  EXPECT_DOUBLE_EQ(moments.deviation, std::sqrt(13));
  EXPECT_EQ(MomentsOf({3}).deviation, 0);
}

SpeedrunLine LineOf(const std::string& arm, int seed, int64_t steps, double cpu, bool reached = true) {
  return {"gpt", arm, seed, "0123", reached, 1.5, steps, cpu, 2 * cpu, "2026-11-23T12:00:00+00:00"};
}

TEST(SpeedrunLines, AreReadAsTheyWereWritten) {
  const TempDir folder;
  const std::string path = folder.path() + "/gpt.jsonl";
  EXPECT_TRUE(ReadSpeedrunLines(path).value().empty());
  const std::string first = SpeedrunJson(LineOf("plain", 1, 400, 80.5)) + "\n";
  const std::string second = SpeedrunJson(LineOf("recipe", 2, 200, 50, false)) + "\n";
  ASSERT_TRUE(AtomicWriteFile(path, first + second + second.substr(0, 30)).ok());
  const auto lines = ReadSpeedrunLines(path);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 2u) << "without the one that was cut";
  EXPECT_EQ(SpeedrunJson((*lines)[0]) + "\n", first);
  EXPECT_EQ(SpeedrunJson((*lines)[1]) + "\n", second);
  for (const char* damaged : {"{}", "7", "not JSON", R"({"task": 1})"}) {
    ASSERT_TRUE(AtomicWriteFile(path, first + damaged + "\n").ok());
    EXPECT_THAT(std::string(ReadSpeedrunLines(path).status().message()), HasSubstr("gpt.jsonl:2: no line of a"));
  }
}

TEST(SpeedrunLines, ArmsAreCompared) {
  std::vector<SpeedrunLine> lines = {LineOf("plain", 1, 400, 90), LineOf("recipe", 1, 200, 61)};
  const std::string one_seed = SpeedrunTable(CompareArms(lines), "loss < 1.6");
  EXPECT_THAT(one_seed, HasSubstr("steps: plain / recipe = 2.00 (Welch's test: two runs of each are needed"));
  lines.push_back(LineOf("plain", 2, 420, 94));
  lines.push_back(LineOf("recipe", 2, 210, 63, false));
  const SpeedrunComparison both = CompareArms(lines);
  EXPECT_DOUBLE_EQ(both.steps_ratio, 2);
  EXPECT_DOUBLE_EQ(both.cpu_ratio, 184.0 / 124);
  EXPECT_LT(both.steps_p, 0.02);
  const std::string table = SpeedrunTable(both, "loss < 1.6");
  EXPECT_THAT(table, HasSubstr("to loss < 1.6:\n"));
  EXPECT_THAT(table, HasSubstr("2 of 2     410.0 ±   14.1          92.0 ±    2.8       1.5000"));
  EXPECT_THAT(table, HasSubstr("1 of 2"));
  const auto json = nlohmann::json::parse(SpeedrunSummaryJson(both, "gpt"));
  EXPECT_EQ(json["recipe"]["reached"], 1);
  EXPECT_EQ(json["steps_ratio"], 2);
  lines.resize(1);
  EXPECT_TRUE(nlohmann::json::parse(SpeedrunSummaryJson(CompareArms(lines), "gpt"))["steps_ratio"].is_null());
}

TEST(SpeedrunCommand, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{}, "speedrun takes one of fashion, gpt and bert"},
      {{"fashon"}, "not `fashon` (did you mean `fashion`?)"},
      {{"gpt", "more"}, "`more` is not a change of the jobs, key=value"},
      {{"gpt", "--arm", "fast"}, "--arm"},
      {{"--seeds", "0", "gpt"}, "--seeds"},
      {{"gpt", "--quality", "good"}, "--quality good: must be a number"}};
  for (const auto& [words, expected] : rows) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(SpeedrunCommand(words, {}, "/nowhere/composer_worker"), 64);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(expected));
  }
}

}  // namespace
}  // namespace composer
