// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/retention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace composer {
namespace {

using Names = std::vector<CheckpointName>;

TEST(Retention, Table) {
  const struct {
    const char* what;
    std::vector<int64_t> batches;
    int64_t just_saved;
    int keep;
    std::vector<int64_t> deleted;
  } kCases[] = {
      {"all are kept", {10, 20, 30}, 30, -1, {}},
      {"two are kept", {10, 20, 30, 40}, 40, 2, {10, 20}},
      {"any order in, oldest first out", {30, 10, 40, 20}, 40, 2, {10, 20}},
      {"as many as there are", {10, 20}, 20, 2, {}},
      {"more than there are", {10, 20}, 20, 5, {}},
      {"only the newest", {10, 20, 30}, 30, 1, {10, 20}},
      {"0 counts as 1", {10, 20, 30}, 30, 0, {10, 20}},
      {"newer ones are neither counted nor deleted", {10, 20, 30, 40}, 20, 1, {10}},
      {"newer ones do not push out older valid ones", {10, 20, 30, 40}, 20, 2, {}},
      {"the first one", {10}, 10, 1, {}},
      {"just_saved stays though it is not in the list", {10, 20}, 30, 1, {10, 20}},
  };
  for (const auto& test : kCases) {
    Names committed, expected;
    for (const int64_t batch : test.batches) committed.push_back({0, batch});
    for (const int64_t batch : test.deleted) expected.push_back({0, batch});
    EXPECT_EQ(CheckpointsToDelete(committed, {0, test.just_saved}, test.keep), expected) << test.what;
  }
}

TEST(Retention, TheBestStayBesidesTheNewest) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const struct {
    const char* what;
    std::vector<std::pair<int64_t, double>> saved;
    int64_t just_saved;
    int keep, best;
    bool less;
    std::vector<int64_t> deleted;
  } kCases[] = {
      {"the best and the newest", {{10, 0.5}, {20, 0.9}, {30, 0.7}}, 30, -1, 1, false, {10}},
      {"less is better", {{10, 0.5}, {20, 0.9}, {30, 0.7}}, 30, -1, 1, true, {20}},
      {"the newest is the best", {{10, 0.5}, {20, 0.6}, {30, 0.7}}, 30, -1, 1, false, {10, 20}},
      {"two of the best", {{10, 0.5}, {20, 0.9}, {30, 0.8}, {40, 0.1}}, 40, -1, 2, false, {10}},
      {"of equal ones the older", {{10, 0.5}, {20, 0.5}, {30, 0.1}}, 30, -1, 1, false, {20}},
      {"without a score none is among the best", {{10, kNone}, {20, kNone}, {30, kNone}}, 30, -1, 2, false, {10, 20}},
      {"the newest two, too", {{10, 0.1}, {20, 0.9}, {30, 0.2}, {40, 0.3}}, 40, 2, 1, false, {10}},
      {"newer ones are not looked at", {{10, 0.5}, {20, 0.4}, {30, 0.9}}, 20, -1, 1, false, {}},
  };
  for (const auto& test : kCases) {
    std::vector<ScoredCheckpoint> committed;
    for (const auto& [batch, score] : test.saved) committed.push_back({{0, batch}, score});
    Names deleted;
    for (const int64_t batch : test.deleted) deleted.push_back({0, batch});
    EXPECT_EQ(CheckpointsWorseThanBest(committed, {0, test.just_saved}, test.keep, {"m", test.best, test.less}),
              deleted)
        << test.what;
  }
}

TEST(Retention, AScoreIsThatOfItsMetric) {
  const std::map<std::string, std::string> small = {{kScoreKey, ScoreJson("metrics/eval/A", 0.25)}};
  EXPECT_EQ(ScoreOf(small, "metrics/eval/A"), 0.25);
  EXPECT_TRUE(std::isnan(ScoreOf(small, "metrics/eval/B")));
  EXPECT_TRUE(std::isnan(ScoreOf({}, "metrics/eval/A")));
  for (const char* odd : {"", "7", "{", "{}", R"({"monitor": 1, "value": 2})", R"({"monitor": "m", "value": "2"})"})
    EXPECT_TRUE(std::isnan(ScoreOf({{kScoreKey, odd}}, "m"))) << odd;
}

}  // namespace
}  // namespace composer
