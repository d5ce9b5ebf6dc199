// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/stop_request.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

namespace composer {
namespace {

constexpr StopAction kIgnore = StopAction::kIgnore, kDrain = StopAction::kDrain, kPassOn = StopAction::kPassOn,
                     kKill = StopAction::kKill;

struct Step {
  int millis;
  int signal;
  StopAction expected;
};

void Check(bool listens, const std::vector<Step>& steps) {
  StopHistory history;
  for (size_t i = 0; i < steps.size(); ++i) {
    const absl::Time now = absl::UnixEpoch() + absl::Milliseconds(steps[i].millis);
    const StopDecision decision = DecideStop(history, steps[i].signal, listens, now);
    EXPECT_EQ(decision.action, steps[i].expected) << "request " << i << ", signal " << steps[i].signal;
    history = decision.history;
  }
}

TEST(DecideStopTest, Jobs) {
  Check(true, {{0, SIGTERM, kDrain}, {5000, SIGTERM, kKill}});
  Check(true, {{0, SIGINT, kDrain}, {50, SIGINT, kKill}});
  Check(true, {{0, SIGINT, kDrain}, {50, SIGTERM, kKill}});
  Check(true, {{0, SIGHUP, kDrain}, {5000, SIGHUP, kIgnore}, {6000, SIGTERM, kKill}});
}

TEST(DecideStopTest, SlurmsTimeLimit) {
  // First --signal=USR1@60, then the limit: SIGTERM three times, all of them one request.
  Check(true, {{0, SIGUSR1, kDrain}, {60000, SIGTERM, kIgnore}, {60008, SIGTERM, kIgnore}, {60020, SIGTERM, kIgnore}});
  Check(true, {{0, SIGTERM, kDrain}, {9, SIGTERM, kIgnore}, {19, SIGTERM, kIgnore}, {2000, SIGTERM, kKill}});
}

TEST(DecideStopTest, SlowRepetitionsDoNotHideBehindTheWindow) {
  Check(true, {{0, SIGTERM, kDrain}, {900, SIGTERM, kIgnore}, {1800, SIGTERM, kKill}});
}

TEST(DecideStopTest, ANoticeAndThenTheCloudsSigterm) {
  Check(
      true,
      {{0, kNoticeSignal, kDrain}, {100, kNoticeSignal, kIgnore}, {30000, SIGTERM, kIgnore}, {32000, SIGTERM, kKill}});
  Check(true, {{0, SIGTERM, kDrain}, {100, kNoticeSignal, kIgnore}, {200, SIGUSR1, kIgnore}});
}

TEST(DecideStopTest, Programs) {
  Check(false, {{0, SIGUSR1, kPassOn},
                {1, SIGUSR1, kPassOn},
                {2, SIGTERM, kPassOn},
                {3, SIGUSR2, kPassOn},
                {5000, SIGTERM, kKill}});
  Check(false,
        {{0, kNoticeSignal, kPassOn}, {1, kNoticeSignal, kIgnore}, {2, SIGTERM, kIgnore}, {9000, SIGTERM, kKill}});
}

}  // namespace
}  // namespace composer
