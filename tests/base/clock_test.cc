// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(Clock, ManualMovesOnlyWhenTold) {
  ManualClock clock(absl::FromUnixSeconds(10));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(10));
  clock.Advance(absl::Seconds(2));
  clock.SleepFor(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(15));
}

TEST(Clock, RealNeverGoesBack) {
  const absl::Time first = RealClock::Get().Now();
  EXPECT_LE(first, RealClock::Get().Now());
}

}  // namespace
}  // namespace composer
