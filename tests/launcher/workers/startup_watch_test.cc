// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/startup_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>

#include "base/clock.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(10'000);

StartupActivity In(int rank, StartupPhase phase, int idle_seconds, int seconds_in_phase = 0) {
  return {.rank = rank,
          .phase = phase,
          .since = kNow - absl::Seconds(std::max(idle_seconds, seconds_in_phase)),
          .last_progress = kNow - absl::Seconds(idle_seconds)};
}

StartupActivity Stopped(StartupActivity worker, int seconds) {
  worker.stopped_since = kNow - absl::Seconds(seconds);
  return worker;
}

StartupActivity Starved(StartupActivity worker, int seconds) {
  worker.waited = absl::Seconds(seconds);
  return worker;
}

TEST(StartupWatchTest, Table) {
  struct Case {
    const char* name;
    std::vector<StartupActivity> workers;
    int rank;  // -1 means that none is stuck
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"nobody", {}, -1, ""},
      {"at the limit", {In(0, StartupPhase::kAttach, 60)}, -1, ""},
      {"never attached",
       {In(0, StartupPhase::kAttach, 61)},
       0,
       "no progress for 61s while attaching to its launcher (--startup-limits attach=60)"},
      {"never spawned", {In(3, StartupPhase::kSpawn, 61)}, 3, "no progress for 61s while being started"},
      {"busy before its first heartbeat", {In(0, StartupPhase::kAttach, 0, 600)}, -1, ""},
      {"busy there for ever", {In(0, StartupPhase::kAttach, 0, 601)}, 0, "no heartbeat 601s after its start"},
      {"forming the group", {In(0, StartupPhase::kGroup, 301)}, 0, "while forming the process group"},
      {"building", {In(0, StartupPhase::kBuild, 601)}, 0, "while building the model and the data"},
      {"loading gets on for hours", {In(0, StartupPhase::kLoad, 1, 20'000)}, -1, ""},
      {"loading", {In(0, StartupPhase::kLoad, 901)}, 0, "while loading the checkpoint (--startup-limits load=900)"},
      {"a compilation in the first step", {In(0, StartupPhase::kFirstStep, 0, 20'000)}, -1, ""},
      {"the first step", {In(0, StartupPhase::kFirstStep, 1201)}, 0, "while in its first step"},
      {"over is never judged", {In(0, StartupPhase::kOver, 99'999)}, -1, ""},
      {"those who wait for an earlier one are not judged",
       {In(0, StartupPhase::kGroup, 400), In(1, StartupPhase::kAttach, 5)},
       -1,
       ""},
      {"the earlier one is",
       {In(0, StartupPhase::kGroup, 400), In(1, StartupPhase::kAttach, 61)},
       1,
       "while attaching"},
      {"of several the one that has been idle for longest",
       {In(0, StartupPhase::kGroup, 301), In(1, StartupPhase::kGroup, 305), In(2, StartupPhase::kGroup, 305)},
       1,
       "no progress for 305s"},
      {"a starved one has more time", {Starved(In(0, StartupPhase::kLoad, 1700), 850)}, -1, ""},
      {"and those that wait for it",
       {In(0, StartupPhase::kGroup, 350), Starved(In(1, StartupPhase::kGroup, 340), 300)},
       -1,
       ""},
      {"but not for ever",
       {Starved(In(0, StartupPhase::kGroup, 3001), 3000)},
       0,
       "no progress for 3001s while forming the process group"},
      {"a later phase is not an excuse",
       {In(0, StartupPhase::kGroup, 301), Starved(In(1, StartupPhase::kLoad, 340), 300)},
       0,
       "no progress for 301s"},
      {"stopped, as long as a heartbeat may be late", {Stopped(In(1, StartupPhase::kAttach, 20), 20)}, -1, ""},
      {"stopped for longer",
       {In(0, StartupPhase::kGroup, 21), Stopped(In(1, StartupPhase::kAttach, 21), 21)},
       1,
       "stopped for 21s while attaching to its launcher"},
      {"stopped in a later phase is certain, too",
       {In(0, StartupPhase::kBuild, 21), Stopped(In(1, StartupPhase::kLoad, 21), 21)},
       1,
       "stopped for 21s while loading"},
  };
  for (const Case& c : cases) {
    const auto hang = FindStuckStart(c.workers, kNow, {}, absl::Seconds(20));
    EXPECT_EQ(hang.has_value() ? hang->rank : -1, c.rank) << c.name;
    if (hang.has_value()) EXPECT_THAT(hang->reason, HasSubstr(c.reason)) << c.name;
  }
  const StartupLimits off = {.attach = absl::InfiniteDuration()};
  EXPECT_FALSE(FindStuckStart({In(0, StartupPhase::kAttach, 99'999)}, kNow, off, absl::Seconds(20)).has_value());
}

ProcessWork Work(double cpu_seconds, int64_t bytes = 0) { return {.cpu = absl::Seconds(cpu_seconds), .bytes = bytes}; }

TEST(StartupTrackerTest, ComputingAndReadingAreProgressHeartbeatsAreNot) {
  ManualClock clock(kNow);
  StartupTracker tracker(2, clock.Now());
  const auto after = [&](double seconds, ProcessWork work) {
    clock.Advance(absl::Seconds(seconds));
    tracker.Observe(StartupPhase::kLoad, work, clock.Now());
    return clock.Now() - tracker.activity().last_progress;
  };
  EXPECT_EQ(after(1, Work(1)), absl::ZeroDuration()) << "it entered the phase";
  EXPECT_EQ(after(100, Work(1.1)), absl::Seconds(100)) << "a heartbeat costs 0.1 % of a CPU";
  EXPECT_EQ(after(100, Work(1.2)), absl::Seconds(200));
  EXPECT_EQ(after(5, Work(20)), absl::ZeroDuration()) << "it computes";
  EXPECT_EQ(after(100, Work(20, 1 << 20)), absl::Seconds(100)) << "10 KiB a second";
  EXPECT_EQ(after(5, Work(20, 64 << 20)), absl::ZeroDuration()) << "it reads";
  EXPECT_EQ(after(30, Work(20, 64 << 20)), absl::Seconds(30));
  tracker.Observe(StartupPhase::kFirstStep, std::nullopt, clock.Now());
  EXPECT_EQ(tracker.activity().last_progress, clock.Now()) << "a new phase";
  EXPECT_EQ(tracker.activity().rank, 2);
}

TEST(StartupTrackerTest, AWaitForAProcessorCountsSinceTheLastProgress) {
  ManualClock clock(kNow);
  StartupTracker tracker(4, clock.Now());
  clock.Advance(absl::Seconds(310));
  tracker.AddWait(absl::Seconds(300), clock.Now());
  tracker.AddWait(absl::Seconds(300), clock.Now());
  EXPECT_EQ(tracker.activity().waited, absl::Seconds(310)) << "no more than all of it";
  EXPECT_THAT(DescribeStarved(tracker.activity(), clock.Now(), {}),
              HasSubstr("rank 4 is starved: it has had no progress for 310s"));
  tracker.Observe(StartupPhase::kAttach, std::nullopt, clock.Now());
  EXPECT_EQ(tracker.activity().waited, absl::ZeroDuration()) << "a new phase";
  EXPECT_EQ(DescribeStarved(tracker.activity(), clock.Now(), {}), "");
}

TEST(StartupTrackerTest, AStoppedProcessIsTimedFromTheFirstLook) {
  ManualClock clock(kNow);
  StartupTracker tracker(0, clock.Now());
  ProcessWork stopped;
  stopped.stopped = true;
  tracker.Observe(StartupPhase::kAttach, stopped, clock.Now());
  clock.Advance(absl::Seconds(9));
  tracker.Observe(StartupPhase::kAttach, stopped, clock.Now());
  EXPECT_EQ(tracker.activity().stopped_since, kNow);
  tracker.Restart(clock.Now());
  EXPECT_EQ(tracker.activity().stopped_since, clock.Now()) << "forgiven";
  tracker.Observe(StartupPhase::kAttach, ProcessWork(), clock.Now());
  EXPECT_EQ(tracker.activity().stopped_since, absl::InfiniteFuture()) << "it goes on";
}

TEST(ProcessWorkTest, ReadsWhatTheKernelWrites) {
  const std::string stat = "77 (a ) name) S 1 77 77 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 9 0 1234 5 6";
  EXPECT_EQ(CpuTimeOf(stat, 100), absl::Milliseconds(2100));
  for (const char* bad : {"", "77 (x) S 1", "77 x S 1 77 77 0 -1 4194560 1 2 3 4 150 50 7 3"})
    EXPECT_EQ(CpuTimeOf(bad, 100), absl::ZeroDuration()) << bad;
  EXPECT_EQ(BytesOf("rchar: 100\nwchar: 20\nsyscr: 7\nread_bytes: 3\nwrite_bytes: 999\n"), 123);
  EXPECT_EQ(BytesOf("rchar: -5\nnonsense"), 0);
  const ProcessWork own = WorkOf(getpid());
  EXPECT_FALSE(own.stopped);
  volatile double sum = 0;
  const std::clock_t start = std::clock();  // of processor time: other programs may have both cores
  while (std::clock() - start < CLOCKS_PER_SEC * 6 / 100) sum = sum + 1;
  EXPECT_GT(WorkOf(getpid()).cpu, own.cpu);
}

}  // namespace
}  // namespace composer
