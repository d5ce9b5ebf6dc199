// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/hang_detector.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

WorkerActivity Training(int rank, int64_t batch, int seconds_since_step, int p99_seconds = 0) {
  return {.rank = rank,
          .training = true,
          .batch = batch,
          .last_step = kNow - absl::Seconds(seconds_since_step),
          .p99_step = absl::Seconds(p99_seconds)};
}

WorkerActivity Silent(WorkerActivity worker, int seconds) {
  worker.last_heartbeat = kNow - absl::Seconds(seconds);
  return worker;
}

WorkerActivity Loading(int rank) { return {.rank = rank, .last_step = absl::InfinitePast()}; }

TEST(HangDetectorTest, Table) {
  struct Case {
    const char* name;
    std::vector<WorkerActivity> workers;
    int hung_rank;  // -1 means none
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"nobody", {}, -1, ""},
      {"at the limit", {Training(0, 5, 20)}, -1, ""},
      {"beyond it", {Training(0, 5, 21)}, 0, "no step for 21s (limit 20s) at step 5"},
      {"slow steps raise the limit", {Training(0, 5, 30, 10)}, -1, ""},
      {"three slow steps", {Training(0, 5, 31, 10)}, 0, "no step for 31s (limit 30s) at step 5"},
      {"loading takes as long as it takes", {Loading(0)}, -1, ""},
      {"fewest steps is named",
       {Training(0, 6, 21), Training(1, 5, 21), Training(2, 6, 21)},
       1,
       "no step for 21s (limit 20s) at step 5"},
      {"no heartbeat is named before those who wait for it",
       {Training(0, 5, 25), Silent(Training(1, 6, 25), 21)},
       1,
       "no heartbeat for 21s"},
      {"a stopped loader", {Silent(Loading(1), 21)}, 1, "no heartbeat for 21s"},
  };
  for (const Case& c : cases) {
    const auto hang = FindHang(c.workers, kNow, {});
    EXPECT_EQ(hang.has_value() ? hang->rank : -1, c.hung_rank) << c.name;
    EXPECT_EQ(hang.has_value() ? hang->reason : "", c.reason) << c.name;
  }
}

TEST(ActivityTrackerTest, TimesStepsAndHeartbeats) {
  ActivityTracker tracker(3);
  tracker.Observe({}, kNow);
  EXPECT_EQ(tracker.activity().last_heartbeat, absl::InfiniteFuture());
  tracker.Observe({.training = true, .batch = 100, .heartbeat = 1}, kNow + absl::Seconds(1));
  EXPECT_EQ(tracker.activity().p99_step, absl::ZeroDuration());  // resumed at 100: no step was seen
  tracker.Observe({.training = true, .batch = 104, .heartbeat = 2}, kNow + absl::Seconds(3));
  EXPECT_EQ(tracker.activity().p99_step, absl::Milliseconds(500));
  EXPECT_EQ(tracker.activity().last_step, kNow + absl::Seconds(3));
  tracker.Observe({.training = true, .batch = 104, .heartbeat = 2}, kNow + absl::Seconds(30));
  EXPECT_EQ(tracker.activity().last_step, kNow + absl::Seconds(3));
  EXPECT_EQ(tracker.activity().last_heartbeat, kNow + absl::Seconds(3));
  ASSERT_TRUE(FindHang({tracker.activity()}, kNow + absl::Seconds(30), {}).has_value());
  EXPECT_EQ(FindHang({tracker.activity()}, kNow + absl::Seconds(30), {})->rank, 3);
  tracker.Restart(kNow + absl::Seconds(30));
  EXPECT_FALSE(FindHang({tracker.activity()}, kNow + absl::Seconds(30), {}).has_value());
}

TEST(ActivityTrackerTest, ThePercentileForgetsOldSteps) {
  ActivityTracker tracker;
  absl::Time now = kNow;
  tracker.Observe({.training = true}, now);
  int64_t batch = 0;
  for (const int seconds : {60, 60})
    tracker.Observe({.training = true, .batch = ++batch}, now += absl::Seconds(seconds));
  EXPECT_EQ(tracker.activity().p99_step, absl::Seconds(60));
  for (int i = 0; i < 300; ++i) tracker.Observe({.training = true, .batch = ++batch}, now += absl::Seconds(1));
  EXPECT_EQ(tracker.activity().p99_step, absl::Seconds(1));
}

TEST(ActivityTrackerTest, LeavingAndEnteringTrainingStartsTheClockAnew) {
  ActivityTracker tracker;
  tracker.Observe({.training = true, .batch = 1}, kNow);
  tracker.Observe({.training = false, .batch = 1}, kNow + absl::Seconds(1));
  tracker.Observe({.training = true, .batch = 1}, kNow + absl::Seconds(100));
  EXPECT_FALSE(FindHang({tracker.activity()}, kNow + absl::Seconds(110), {}).has_value());
}

}  // namespace
}  // namespace composer
