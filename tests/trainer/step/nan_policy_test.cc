// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/nan_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace composer {
namespace {

using Action = NanPolicy::Action;

std::vector<Action> Play(NanPolicy& policy, const std::vector<bool>& finite) {
  std::vector<Action> actions;
  for (const bool step : finite) actions.push_back(policy.OnStep(step));
  return actions;
}

TEST(NanPolicy, StopsAtOnceSkipsOrGoesOn) {
  NanPolicy stop, skip(OnNan::kSkip), go_on(OnNan::kContinue);
  EXPECT_EQ(Play(stop, {true, false}), (std::vector{Action::kUpdate, Action::kStop}));
  EXPECT_EQ(Play(skip, {true, false, true}), (std::vector{Action::kUpdate, Action::kSkip, Action::kUpdate}));
  EXPECT_EQ(Play(go_on, {true, false}), (std::vector{Action::kUpdate, Action::kUpdate}));
  EXPECT_EQ(stop.skipped_steps(), 0);
  EXPECT_EQ(skip.skipped_steps(), 1);
}

TEST(NanPolicy, TenInARowAndNoMore) {
  NanPolicy policy(OnNan::kSkip);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < NanPolicy::kMostInARow; ++i) EXPECT_EQ(policy.OnStep(false), Action::kSkip);
    EXPECT_EQ(policy.OnStep(true), Action::kUpdate);
  }
  for (int i = 0; i < NanPolicy::kMostInARow; ++i) policy.OnStep(false);
  EXPECT_EQ(policy.OnStep(false), Action::kStop);
  EXPECT_EQ(policy.skipped_steps(), 40);
}

TEST(NanPolicy, OneWarning) {
  NanPolicy policy(OnNan::kSkip);
  int warnings = 0;
  for (const bool finite : {true, false, false, true, false}) {
    policy.OnStep(finite);
    warnings += !finite && policy.is_first();
  }
  EXPECT_EQ(warnings, 1);
}

TEST(NanPolicy, CountsSurviveARestart) {
  NanPolicy policy(OnNan::kSkip), resumed(OnNan::kSkip);
  EXPECT_EQ(policy.SaveState(), "");
  for (int i = 0; i < 9; ++i) policy.OnStep(false);
  ASSERT_TRUE(resumed.LoadState(policy.SaveState()).ok());
  EXPECT_EQ(resumed.skipped_steps(), 9);
  EXPECT_EQ(resumed.OnStep(false), Action::kSkip);
  EXPECT_EQ(resumed.OnStep(false), Action::kStop);
  for (const char* bad : {"", "[]", "{}", R"({"skipped_steps":-1,"in_a_row":0})", R"({"skipped_steps":1})"})
    EXPECT_FALSE(resumed.LoadState(bad).ok()) << bad;
}

}  // namespace
}  // namespace composer
