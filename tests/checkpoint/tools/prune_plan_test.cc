// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/prune_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

std::vector<int64_t> Deleted(std::vector<int64_t> batches, std::optional<int64_t> newest_valid, int keep) {
  std::vector<CheckpointName> committed;
  for (const int64_t batch : batches) committed.push_back({0, batch});
  std::optional<CheckpointName> valid;
  if (newest_valid.has_value()) valid = CheckpointName{0, *newest_valid};
  std::vector<int64_t> deleted;
  for (const PruneDecision& decision : PlanPrune(committed, valid, keep)) {
    if (decision.deletes) deleted.push_back(decision.name.batch);
  }
  return deleted;
}

TEST(PrunePlan, TheNewestStay) {
  using testing::ElementsAre;
  EXPECT_THAT(Deleted({4, 2, 3}, 4, 1), ElementsAre(2, 3));
  EXPECT_THAT(Deleted({2, 3, 4}, 4, 2), ElementsAre(2));
  EXPECT_THAT(Deleted({2, 3, 4}, 4, 9), ElementsAre());
  EXPECT_THAT(Deleted({}, std::nullopt, 1), ElementsAre());
}

TEST(PrunePlan, TheNewestValidOneStaysToo) {
  const std::vector<PruneDecision> plan = PlanPrune({{0, 1}, {0, 2}, {0, 3}}, CheckpointName{0, 2}, 1);
  EXPECT_TRUE(plan[0].deletes);
  EXPECT_EQ(plan[1], (PruneDecision{{0, 2}, false, "the newest valid one"}));
  EXPECT_EQ(plan[2], (PruneDecision{{0, 3}, false, ""}));
}

TEST(WhyInUse, AnUnfinishedAttemptOrAYoungCheckpoint) {
  const absl::Time now = absl::FromUnixSeconds(1'000'000);
  const auto ago = [&](absl::Duration age) { return now - age; };
  const struct {
    FolderUse use;
    bool in_use;
  } cases[] = {
      {{{}, {}}, false},
      {{{ago(absl::Hours(30))}, {"ep0-ba4/attempt-1"}}, true},
      {{{ago(absl::Minutes(9))}, {}}, true},
      {{{ago(absl::Minutes(11))}, {}}, false},
      {{{ago(absl::Minutes(-3))}, {}}, true},  // the other clock is ahead
      {{{ago(absl::Minutes(11)), ago(absl::Minutes(17))}, {}}, true},
      {{{ago(absl::Minutes(13)), ago(absl::Minutes(19))}, {}}, false},
      {{{ago(absl::Minutes(61)), ago(absl::Minutes(91)), ago(absl::Minutes(92))}, {}}, false},
      {{{ago(absl::Minutes(59)), ago(absl::Minutes(89)), ago(absl::Minutes(90))}, {}}, true},
      {{{ago(absl::Hours(23)), ago(absl::Hours(500))}, {}}, true},
      {{{ago(absl::Hours(25)), ago(absl::Hours(500))}, {}}, false},
  };
  for (const auto& [use, in_use] : cases) EXPECT_EQ(!WhyInUse(use, now).empty(), in_use) << WhyInUse(use, now);
}

}  // namespace
}  // namespace composer
