// SPDX-License-Identifier: Apache-2.0
#include "contract/startup_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using ::testing::HasSubstr;

TEST(StartupLimitsTest, TextSetsWhatItNames) {
  StartupLimits limits;
  ASSERT_TRUE(SetStartupLimits("attach=2.5,first-step=7200,load=0", limits).ok());
  EXPECT_EQ(limits.attach, absl::Milliseconds(2500));
  EXPECT_EQ(limits.first_step, absl::Hours(2));
  EXPECT_EQ(limits.load, absl::InfiniteDuration());
  EXPECT_EQ(limits.group, StartupLimits().group) << "not named";
}

TEST(StartupLimitsTest, BadTextChangesNothing) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {{"atach=3", "did you mean `attach`"}, {"attach", "phase=seconds"}, {"attach=soon", "phase=seconds"},
               {"attach=-1", "from 0 to"},           {"group=nan", "from 0 to"},  {"load=9e9", "from 0 to"},
               {"attach=3,build", "phase=seconds"}};
  for (const auto& c : cases) {
    StartupLimits limits;
    const absl::Status status = SetStartupLimits(c.text, limits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.said)) << c.text;
    EXPECT_EQ(limits.attach, StartupLimits().attach) << c.text;
  }
}

}  // namespace
}  // namespace composer
