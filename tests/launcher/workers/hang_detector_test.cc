// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/hang_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"

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

WorkerActivity Starved(WorkerActivity worker, int seconds) {
  worker.waited_since_step = absl::Seconds(seconds);
  if (worker.last_heartbeat != absl::InfiniteFuture()) worker.waited_since_heartbeat = absl::Seconds(seconds);
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
      {"a starved one has more time", {Starved(Training(0, 5, 38), 19)}, -1, ""},
      {"its wait, and no more", {Starved(Training(0, 5, 40), 20)}, -1, ""},
      {"beyond its wait",
       {Starved(Training(0, 5, 51), 30)},
       0,
       "no step for 51s (limit 50s), 30s of them waiting for a processor at step 5"},
      {"one that waited for less than half of it is blocked",
       {Starved(Training(0, 5, 31), 15)},
       0,
       "no step for 31s (limit 20s) at step 5"},
      {"ten times the limit at most", {Starved(Training(0, 5, 200), 199)}, -1, ""},
      {"and not longer",
       {Starved(Training(0, 5, 201), 200)},
       0,
       "no step for 201s (limit 200s), 200s of them waiting for a processor at step 5"},
      {"of the limit that slow steps have raised", {Starved(Training(0, 5, 299, 10), 290)}, -1, ""},
      {"a starved one without a heartbeat", {Starved(Silent(Training(0, 5, 39), 39), 20)}, -1, ""},
      {"that has waited for too long",
       {Starved(Silent(Loading(0), 51), 30)},
       0,
       "no heartbeat for 51s, 30s of them waiting for a processor"},
      {"others wait for the starved one in the same step",
       {Training(0, 5, 39), Starved(Training(1, 5, 39), 30)},
       -1,
       ""},
      {"and in an earlier one", {Training(0, 6, 39), Starved(Training(1, 5, 40), 30)}, -1, ""},
      {"but not in a later one",
       {Training(0, 5, 39), Starved(Training(1, 6, 38), 30)},
       0,
       "no step for 39s (limit 20s) at step 5"},
      {"a rank that is starved excuses no missing heartbeat",
       {Silent(Training(0, 5, 21), 21), Starved(Training(1, 5, 21), 20)},
       0,
       "no heartbeat for 21s"},
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

TEST(ActivityTrackerTest, AWaitForAProcessorCountsSinceTheLastStepAndHeartbeat) {
  ManualClock clock(kNow);
  ActivityTracker tracker;
  const auto after = [&](int seconds, int64_t batch, int64_t heartbeat, int waited) {
    clock.Advance(absl::Seconds(seconds));
    tracker.Observe({.training = true, .batch = batch, .heartbeat = heartbeat}, clock.Now());
    tracker.AddWait(absl::Seconds(waited), clock.Now());
  };
  after(1, 7, 1, 9);
  EXPECT_EQ(tracker.activity().waited_since_step, absl::ZeroDuration()) << "the wait was before the step";
  after(12, 7, 2, 10);
  EXPECT_EQ(tracker.activity().waited_since_step, absl::Seconds(10));
  EXPECT_EQ(tracker.activity().waited_since_heartbeat, absl::ZeroDuration()) << "it has just sent one";
  after(18, 7, 2, 17);
  EXPECT_EQ(tracker.activity().waited_since_step, absl::Seconds(27));
  EXPECT_EQ(tracker.activity().waited_since_heartbeat, absl::Seconds(17));
  EXPECT_FALSE(FindHang({tracker.activity()}, clock.Now(), {}).has_value());
  after(17, 7, 3, 0);
  EXPECT_FALSE(FindHang({tracker.activity()}, clock.Now(), {}).has_value());
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(FindHang({tracker.activity()}, clock.Now(), {}).has_value()) << "48 s for 20 s and a wait of 27 s";
  after(0, 8, 3, 0);
  EXPECT_EQ(tracker.activity().waited_since_step, absl::ZeroDuration());
  EXPECT_EQ(tracker.activity().p99_step, absl::Seconds(21)) << "of 48 s it waited for 27 s";
  tracker.Restart(clock.Now());
  EXPECT_EQ(tracker.activity().waited_since_heartbeat, absl::ZeroDuration());
}

TEST(StarvedTest, IsSaidFromHalfTheLimitOn) {
  EXPECT_EQ(DescribeStarved(Starved(Training(3, 5, 10), 10), kNow, {}), "");
  EXPECT_EQ(DescribeStarved(Starved(Training(3, 5, 12), 5), kNow, {}), "") << "it was blocked for most of it";
  EXPECT_EQ(DescribeStarved(Starved(Training(3, 5, 12), 11), kNow, {}),
            "rank 3 is starved: it has had no step for 12s and waited for a processor for 11s of them, since other "
            "processes keep this machine busy; its limit of 20s grows by its wait, to at most 200s");
  EXPECT_THAT(DescribeStarved(Starved(Silent(Loading(1), 15), 15), kNow, {}),
              testing::StartsWith("rank 1 is starved: it has had no heartbeat for 15s"));
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
