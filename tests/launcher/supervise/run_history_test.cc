// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "launcher/supervise/run_recorder.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

absl::Time SecondOf(double seconds) { return absl::FromUnixSeconds(1000) + absl::Seconds(seconds); }

ProgressSnapshot PageAt(int64_t batch) { return {.batch = batch, .samples = batch * 32}; }

proto::WorkerMessage StartedAt(int64_t batch) {
  proto::WorkerMessage message;
  message.mutable_started()->set_batch(batch);
  return message;
}

// Records a launch with one restart: from `start` to `end`, then 2 steps again, then to `end` + 1.
void RecordLaunch(RunRecorder& recorder, int64_t start, int64_t end) {
  recorder.BeginGeneration(1, 2, 0);
  recorder.OnReport(StartedAt(start));
  recorder.EndGeneration({PageAt(end)});
  recorder.Conclude({.next = NextStep::kRestart, .reason = "killed"}, {}, SecondOf(2));
  recorder.BeginGeneration(2, 2, 1);
  recorder.OnReport(StartedAt(end - 2));
  recorder.EndGeneration({PageAt(end + 1)});
  recorder.Conclude({.next = NextStep::kPreempted, .exit_code = 75}, {}, SecondOf(4));
}

TEST(RunHistoryTest, RestartsOfAllLaunchesAreCounted) {
  TempDir dir;
  for (int launch = 1; launch <= 20; ++launch) {
    RunRecorder recorder("run", dir.path(), SecondOf(0), ReadHistory(dir.path()));
    EXPECT_EQ(recorder.summary().launch(), launch);
    RecordLaunch(recorder, launch * 10, launch * 10 + 8);
    ASSERT_TRUE(WriteSummary(recorder.summary()).ok());
    const std::string text = DescribeRun(recorder.summary());
    if (launch == 1) {
      EXPECT_THAT(text, Not(HasSubstr("launches")));
    }
    if (launch == 20) {
      EXPECT_THAT(text, HasSubstr("all 20 launches: 20 restarts, 40 steps done again, 80.0 s\n"));
    }
  }
  const RunHistory history = ReadHistory(dir.path());
  EXPECT_EQ(history.totals.launches, 20);
  EXPECT_EQ(history.totals.restarts, 20);
  EXPECT_EQ(history.totals.generations, 40);
  EXPECT_EQ(history.totals.recomputed_steps, 40);
  EXPECT_EQ(history.totals.wall_seconds, 80);
  ASSERT_EQ(history.launches.size(), 20u);
  EXPECT_EQ(history.launches[2].launch, 3);
  EXPECT_EQ(history.launches[2].started, 1000);
  EXPECT_EQ(history.launches[2].start_step, 30);
  EXPECT_EQ(history.launches[2].end_step, 39);
  EXPECT_EQ(history.launches[2].restarts, 1);
  EXPECT_EQ(history.launches[2].exit_reason, "preempted");
  EXPECT_EQ(history.launches[2].exit_code, 75);
}

TEST(RunHistoryTest, TheListIsBoundedAndTheTotalsGoOn) {
  TempDir dir;
  for (int launch = 1; launch <= 130; ++launch) {
    RunRecorder recorder("run", dir.path(), SecondOf(0), ReadHistory(dir.path()));
    RecordLaunch(recorder, 0, 5);
    ASSERT_TRUE(WriteSummary(recorder.summary()).ok());
  }
  const RunHistory history = ReadHistory(dir.path());
  EXPECT_EQ(history.totals.launches, 130);
  EXPECT_EQ(history.totals.restarts, 130);
  ASSERT_EQ(history.launches.size(), RunHistory::kMaxLaunches);
  EXPECT_EQ(history.launches.front().launch, 31);
  EXPECT_EQ(history.launches.back().launch, 130);
}

TEST(RunHistoryTest, ALaunchThatWasKilledAsAWholeIsThereAsItStood) {
  TempDir dir;
  RunRecorder recorder("run", dir.path(), SecondOf(0), ReadHistory(dir.path()));
  recorder.BeginGeneration(1, 2, 0);
  ASSERT_TRUE(recorder.OnReport(StartedAt(7)));
  ASSERT_TRUE(WriteSummary(recorder.summary()).ok());
  const RunHistory history = ReadHistory(dir.path());
  ASSERT_EQ(history.launches.size(), 1u);
  EXPECT_EQ(history.launches[0].exit_reason, "lost");
  EXPECT_EQ(history.launches[0].start_step, 7);
  EXPECT_EQ(history.launches[0].generations, 1);
}

TEST(RunHistoryTest, ASummaryOfAnOlderVersionIsOneLaunch) {
  const RunHistory history =
      ParseHistory(R"({"exit_reason":"done","exit_code":0,"steps":64,"restarts":2,"wall_seconds":9.5,)"
                   R"("generations":[{"start_step":3,"recomputed_steps":0},{"start_step":5,"recomputed_steps":4}]})");
  EXPECT_EQ(history.totals.launches, 1);
  EXPECT_EQ(history.totals.restarts, 2);
  EXPECT_EQ(history.totals.recomputed_steps, 4);
  ASSERT_EQ(history.launches.size(), 1u);
  EXPECT_EQ(history.launches[0].start_step, 3);
  EXPECT_EQ(history.launches[0].end_step, 64);
  EXPECT_EQ(history.launches[0].generations, 2);
}

TEST(RunHistoryTest, HostileTextCountsAsNothing) {
  for (const char* text : {"", "{", "[]", "7", "{}", "{\"launch\":3}", "\xff\xfe"}) {
    EXPECT_EQ(ParseHistory(text).totals.launches, 0) << text;
  }
  const RunHistory odd = ParseHistory(
      R"({"exit_reason":7,"launch":-3,"steps":"x","restarts":99999999999999999999,"generations":{"a":1},)"
      R"("wall_seconds":-5,"earlier_launches":[1,null,{"launch":"x"}],"all_launches":{"launches":"many"}})");
  EXPECT_EQ(odd.totals.launches, 0);
  ASSERT_EQ(odd.launches.size(), 2u);
  EXPECT_EQ(odd.launches[0].launch, 1);
  EXPECT_EQ(odd.launches[1].launch, 1);
  EXPECT_EQ(odd.launches[1].wall_seconds, 0);
  EXPECT_EQ(odd.launches[1].generations, 0);
}

}  // namespace
}  // namespace composer
