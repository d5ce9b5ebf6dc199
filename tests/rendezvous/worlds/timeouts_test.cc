// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/timeouts.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(TimeoutsTest, UsualJobsNoticeALostNodeWithin3s) {
  for (const int nodes : {1, 2, 256, kUsualNodes}) {
    const Timeouts pace = TimeoutsOf(nodes);
    EXPECT_LT(pace.keepalive_time + pace.keepalive_timeout, absl::Seconds(3)) << nodes;
    EXPECT_LT(pace.client_keepalive_time + pace.keepalive_timeout, absl::Seconds(3)) << nodes;
    EXPECT_EQ(pace.look, absl::Milliseconds(200)) << nodes;
  }
}

TEST(TimeoutsTest, AServerIsAskedNoMoreQuestionsASecondHoweverManyAsk) {
  const auto questions = [](int nodes, absl::Duration every) { return nodes / absl::ToDoubleSeconds(every); };
  for (const int nodes : {1001, 10'000, 100'000}) {
    const Timeouts pace = TimeoutsOf(nodes);
    EXPECT_NEAR(questions(nodes, pace.keepalive_time), 1000, 1) << nodes;
    EXPECT_NEAR(questions(nodes, pace.look), 5000, 1) << nodes;
    EXPECT_GT(pace.client_keepalive_time, pace.keepalive_time) << nodes;
    EXPECT_GT(pace.regather, pace.client_keepalive_time)
        << nodes << ": clients notice within one such time of each other";
    EXPECT_GE(absl::ToDoubleSeconds(pace.connect_timeout), nodes * 0.005) << nodes;
  }
}

TEST(TimeoutsTest, NoJump) {
  EXPECT_LT(TimeoutsOf(kUsualNodes + 1).keepalive_timeout,
            TimeoutsOf(kUsualNodes).keepalive_timeout + absl::Milliseconds(2));
}

}  // namespace
}  // namespace composer
