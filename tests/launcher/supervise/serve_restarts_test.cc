// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/serve_restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contract/exit_code.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Time kStart = absl::FromUnixSeconds(1000);
const ExitStatus kKilled = {.code = 0, .signal = 9}, kCannotStart = {.code = exit_code::kUserError};

TEST(ServeRestartsTest, OneThatDiedIsStartedAgainAtMostOnceASecond) {
  ServeRestarts restarts;
  restarts.OnStart(kStart);
  for (int i = 0; i < 20; ++i) {
    const auto early = restarts.OnExit(kKilled, kStart + absl::Milliseconds(100));
    EXPECT_EQ(early.at, kStart + absl::Seconds(1));
    EXPECT_THAT(early.message, HasSubstr("starting it again"));
  }
  EXPECT_EQ(restarts.OnExit(kKilled, kStart + absl::Hours(1)).at, kStart + absl::Hours(1)) << "at once";
  EXPECT_FALSE(restarts.quiet());
}

TEST(ServeRestartsTest, OneThatCannotStartIsTriedAFewTimesAndSaidOnce) {
  ServeRestarts restarts;
  absl::Time now = kStart;
  for (const int wait : {1, 2, 4, 8}) {
    restarts.OnStart(now);
    const auto again = restarts.OnExit(kCannotStart, now);
    EXPECT_EQ(again.at - now, absl::Seconds(wait));
    if (wait == 1) {
      EXPECT_THAT(again.message, HasSubstr("cannot be started"));
    } else {
      EXPECT_THAT(again.message, IsEmpty());
    }
    EXPECT_TRUE(restarts.quiet()) << "its own words were shown";
    now = again.at;
  }
  const auto last = restarts.OnExit(kCannotStart, now);
  EXPECT_EQ(last.at, absl::InfiniteFuture());
  EXPECT_THAT(last.message, HasSubstr("no more"));
}

TEST(ServeRestartsTest, OneThatRanInBetweenBeginsAnew) {
  ServeRestarts restarts;
  for (int i = 0; i < 4; ++i) restarts.OnExit(kCannotStart, kStart);
  restarts.OnExit(kKilled, kStart);
  EXPECT_EQ(restarts.OnExit(kCannotStart, kStart).at, kStart + absl::Seconds(1));
}

}  // namespace
}  // namespace composer
