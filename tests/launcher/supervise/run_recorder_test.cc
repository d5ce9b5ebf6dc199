// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Time At(double seconds) { return absl::FromUnixSeconds(1000) + absl::Seconds(seconds); }

ProgressSnapshot Page(int64_t batch, double first_step_at) {
  return {.batch = batch, .samples = batch * 32, .first_step_unix_micros = absl::ToUnixMicros(At(first_step_at))};
}

proto::WorkerMessage Started(const std::string& checkpoint, int64_t batch) {
  proto::WorkerMessage message;
  message.mutable_started()->set_checkpoint(checkpoint);
  message.mutable_started()->set_batch(batch);
  message.mutable_started()->set_samples(batch * 32);
  return message;
}

proto::WorkerMessage Saved(const std::string& path, int64_t batch = 0) {
  proto::WorkerMessage message;
  message.mutable_checkpoint_saved()->set_path(path);
  message.mutable_checkpoint_saved()->set_batch(batch);
  return message;
}

TEST(RunRecorderTest, AKillAndARecovery) {
  TempDir dir;
  RunRecorder recorder("run", dir.path(), At(0));
  recorder.BeginGeneration(1, 2, 0);
  recorder.OnReport(Started("", 0));
  recorder.OnReport(Saved("ckpt/ba10"));
  recorder.OnFailure(At(5));
  EXPECT_TRUE(recorder.EndGeneration({Page(14, 2), Page(13, 1.5)}));
  recorder.Conclude({.next = NextStep::kRestart, .reason = "rank 1 was killed"}, {}, At(5));
  EXPECT_EQ(recorder.summary().exit_reason, "running");

  recorder.BeginGeneration(2, 2, 1);
  recorder.OnReport(Started("ckpt/ba10", 10));
  recorder.OnFailure(At(7));
  EXPECT_FALSE(recorder.EndGeneration({Page(13, 5.5), Page(12, 5.5)}));  // not all of them are beyond 13
  recorder.Conclude({.next = NextStep::kRestart, .reason = "again"}, {}, At(7));

  recorder.BeginGeneration(3, 2, 2);
  recorder.OnReport(Started("ckpt/ba10", 10));
  proto::WorkerMessage end;
  (*end.mutable_exit_report()->mutable_metrics())["metrics/eval/Accuracy"] = 0.9;
  recorder.OnReport(end);
  EXPECT_TRUE(recorder.EndGeneration({Page(40, 8)}));
  recorder.Conclude({.next = NextStep::kDone}, {}, At(20));

  const RunSummary& summary = recorder.summary();
  ASSERT_EQ(summary.generations.size(), 3u);
  EXPECT_EQ(summary.steps(), 40);
  EXPECT_EQ(summary.samples(), 1280);
  EXPECT_EQ(summary.restarts, 2);
  EXPECT_EQ(summary.wall_seconds, 20);
  EXPECT_EQ(summary.last_checkpoint, "ckpt/ba10");
  EXPECT_EQ(summary.generations[0].first_step_seconds, 1.5);  // from the launch
  EXPECT_EQ(summary.generations[1].first_step_seconds, 0.5);  // from the failure
  EXPECT_EQ(summary.generations[0].recomputed_steps, 0);
  EXPECT_EQ(summary.generations[1].recomputed_steps, 3);
  EXPECT_EQ(summary.generations[2].recomputed_steps, 4);
  EXPECT_EQ(summary.generations[2].ended, "done");

  ASSERT_TRUE(WriteSummary(summary).ok());
  const nlohmann::json json = nlohmann::json::parse(*ReadFile(dir.Path("summary.json")));
  EXPECT_EQ(json["exit_reason"], "done");
  EXPECT_EQ(json["generations"][1]["cause"], "again");
  EXPECT_EQ(json["metrics"]["metrics/eval/Accuracy"], 0.9);
  EXPECT_THAT(DescribeRun(summary), HasSubstr("done: 40 steps, 1280 samples (64.0 samples/s), 2 restarts, 20.0 s\n"));
}

// The run was killed at 240, restarted from 224, and drained at 230, so it has 230 steps.
TEST(RunRecorderTest, StepsThatWereThrownAwayDoNotCount) {
  RunRecorder recorder("run", "/x", At(0));
  recorder.BeginGeneration(1, 1, 0);
  recorder.OnReport(Started("", 0));
  recorder.OnReport(Saved("ba224", 224));
  recorder.EndGeneration({Page(240, 1)});
  recorder.Conclude({.next = NextStep::kRestart, .reason = "killed"}, {}, At(5));
  EXPECT_EQ(recorder.summary().steps(), 240);
  recorder.BeginGeneration(2, 1, 1);
  EXPECT_EQ(recorder.summary().steps(), 240) << "nothing is loaded yet";
  recorder.OnReport(Started("ba224", 224));
  EXPECT_EQ(recorder.summary().steps(), 224);
  recorder.EndGeneration({Page(230, 6)});
  recorder.Conclude({.next = NextStep::kPreempted, .exit_code = 75}, {}, At(7));
  EXPECT_EQ(recorder.summary().steps(), 230);
  EXPECT_EQ(recorder.summary().samples(), 230 * 32);
  EXPECT_THAT(DescribeRun(recorder.summary()),
              AllOf(HasSubstr(": 230 steps, 7360 samples"), HasSubstr("last checkpoint: ba224 (of step 224)\n")));
}

TEST(RunRecorderTest, OnlyTheFirstWordOfAGenerationIsNews) {
  RunRecorder recorder("run", "/x", At(0));
  EXPECT_FALSE(recorder.OnReport(Started("", 0)));
  recorder.BeginGeneration(1, 2, 0);
  EXPECT_TRUE(recorder.OnReport(Started("", 0)));
  EXPECT_FALSE(recorder.OnReport(Started("", 0)));
  EXPECT_FALSE(recorder.OnReport(Saved("a", 1)));
  recorder.BeginGeneration(2, 2, 1);
  EXPECT_TRUE(recorder.OnReport(Started("a", 1)));
}

TEST(RunRecorderTest, TheSummaryKeepsTheNewestGenerationsOnly) {
  RunRecorder recorder("run", "/x", At(0));
  for (int number = 1; number <= 250; ++number) {
    recorder.BeginGeneration(number, 1, number - 1);
    recorder.EndGeneration({Page(number, 1)});
  }
  const nlohmann::json json = nlohmann::json::parse(ToJson(recorder.summary()));
  EXPECT_EQ(json["generations"].size(), 200u);
  EXPECT_EQ(json["generations"][0]["generation"], 51);
  EXPECT_EQ(json["generations_left_out"], 50);
  EXPECT_EQ(json["all_launches"]["generations"], 250);
}

TEST(RunRecorderTest, AGenerationWithoutASingleStep) {
  RunRecorder recorder("run", "/x", At(0));
  recorder.BeginGeneration(1, 1, 0);
  EXPECT_FALSE(recorder.EndGeneration({ProgressSnapshot()}));
  recorder.Conclude({.next = NextStep::kGiveUp, .exit_code = 64, .first_cause = 0, .reason = "bad"}, {}, At(1));
  const nlohmann::json json = nlohmann::json::parse(ToJson(recorder.summary()));
  EXPECT_EQ(json["exit_reason"], "user_error");
  EXPECT_TRUE(json["generations"][0]["first_step_seconds"].is_null());
  EXPECT_EQ(json["generations"][0]["ended"], "failed");
}

TEST(RunRecorderTest, ExitReasons) {
  const std::vector<std::pair<Verdict, std::string>> cases = {
      {{.next = NextStep::kPreempted, .exit_code = 75}, "preempted"},
      {{.next = NextStep::kGiveUp, .exit_code = 93, .first_cause = 0}, "budget_spent"},
      {{.next = NextStep::kGiveUp, .exit_code = 137, .first_cause = 0}, "failed"},
      {{.next = NextStep::kGiveUp, .exit_code = 130, .stopped = true}, "killed"},
  };
  for (const auto& [verdict, reason] : cases) {
    RunRecorder recorder("run", "/x", At(0));
    recorder.Conclude(verdict, {}, At(1));
    EXPECT_EQ(recorder.summary().exit_reason, reason);
    EXPECT_EQ(recorder.summary().exit_code, verdict.exit_code);
  }
}

}  // namespace
}  // namespace composer
