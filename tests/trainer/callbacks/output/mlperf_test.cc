// Tests the result file line by line, in the order of MLPerf's compliance checker.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/mlperf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

TEST(MlperfLineTest, IsALineOfItsLoggingPackage) {
  const std::string line = MlperfLine(absl::FromUnixMillis(1793271123456), MlperfEvent::kIntervalEnd, "run_stop",
                                      nullptr, {{"status", "success"}, {"epoch_num", 3}});
  ASSERT_THAT(line, StartsWith(":::MLLOG {"));
  ASSERT_EQ(line.back(), '\n');
  const Json json = Json::parse(line.substr(9));
  EXPECT_EQ(json["namespace"], "");
  EXPECT_EQ(json["time_ms"], 1793271123456);
  EXPECT_EQ(json["event_type"], "INTERVAL_END");
  EXPECT_EQ(json["key"], "run_stop");
  EXPECT_TRUE(json["value"].is_null());
  EXPECT_EQ(json["metadata"]["file"], "mlperf_test.cc");
  EXPECT_GT(json["metadata"]["lineno"], 0);
  EXPECT_EQ(json["metadata"]["status"], "success");
  EXPECT_EQ(json["metadata"]["epoch_num"], 3);
}

class MLPerfTest : public CallbackTest {
 protected:
  MLPerfTest() {
    state_.identity.run_folder = dir_.path();
    state_.model = std::make_shared<LinearModel>();
    state_.optimizer = std::make_unique<PlainSgd>(*state_.model, 0.25);
    state_.optimizer->groups()[0].weight_decay = 0.5;
    state_.identity.seed = 17;
  }
  static MLPerfCallback::Options Some() {
    MLPerfCallback::Options options;
    options.system_name = "box";
    options.global_batch_size = 32, options.train_samples = 128, options.eval_samples = 64;
    options.cache_clear_cmd = "true";
    options.target = 0.75;
    return options;
  }
  std::string Path() { return dir_.Path("mlperf/results/box/resnet/result_0.txt"); }
  std::vector<Json> Lines() {
    std::vector<Json> lines;
    for (absl::string_view line : absl::StrSplit(ReadFile(Path()).value(), '\n', absl::SkipEmpty())) {
      EXPECT_TRUE(absl::ConsumePrefix(&line, ":::MLLOG ")) << line;
      lines.push_back(Json::parse(line));
    }
    return lines;
  }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    for (const Json& line : Lines()) keys.push_back(line["key"]);
    return keys;
  }
  Json Line(const std::string& key) {
    for (const Json& line : Lines()) {
      if (line["key"] == key) return line;
    }
    ADD_FAILURE() << "no line " << key;
    return Json::object();
  }
  void Fired(MLPerfCallback& callback, Event event) {
    const absl::Status status = Fire(callback, event);
    ASSERT_TRUE(status.ok()) << status;
    clock_.Advance(absl::Milliseconds(1));
  }
  void Begin(MLPerfCallback& callback) { Fired(callback, Event::kInit), Fired(callback, Event::kFitStart); }
  void Evaluated(MLPerfCallback& callback, double accuracy, const std::string& label = "eval") {
    state_.evaluation.label = label;
    Fired(callback, Event::kEvalStart);
    logger_.Log("metrics/" + label + "/MulticlassAccuracy", accuracy);
    Fired(callback, Event::kEvalEnd);
  }
  void Epoch(MLPerfCallback& callback, double accuracy) {
    Fired(callback, Event::kEpochStart);
    for (int i = 0; i < 4; ++i) Advance(absl::Seconds(1), 32);
    state_.timestamp.ToNextEpoch();
    Fired(callback, Event::kEpochEnd);
    Evaluated(callback, accuracy);
  }
  TempDir dir_;
};

TEST_F(MLPerfTest, ASuccessfulRunByEpochs) {
  MLPerfCallback callback(Some(), clock_);
  Begin(callback);
  Epoch(callback, 0.5);
  Epoch(callback, 0.75);
  Epoch(callback, 0.8);  // after run_stop, nothing is written
  ASSERT_TRUE(callback.Close(state_, logger_).ok());
  const std::vector<std::string> block = {"block_start", "epoch_start", "epoch_stop",   "block_stop",
                                          "eval_start",  "eval_stop",   "eval_accuracy"};
  const std::string want = absl::StrCat(
      "cache_clear init_start submission_benchmark submission_division submission_org submission_platform "
      "submission_status seed global_batch_size gradient_accumulation_steps train_samples eval_samples opt_name "
      "opt_base_learning_rate opt_weight_decay init_stop run_start ",
      absl::StrJoin(block, " "), " ", absl::StrJoin(block, " "), " run_stop");
  EXPECT_EQ(absl::StrJoin(Keys(), " "), want);
  const auto lines = Lines();
  for (size_t i = 1; i < lines.size(); ++i) EXPECT_GE(lines[i]["time_ms"], lines[i - 1]["time_ms"]);
  EXPECT_EQ(Line("seed")["value"], 17);
  EXPECT_EQ(Line("global_batch_size")["value"], 32);
  EXPECT_EQ(Line("opt_name")["value"], "sgd");
  EXPECT_EQ(Line("opt_base_learning_rate")["value"], 0.25);
  EXPECT_EQ(Line("opt_weight_decay")["value"], 0.5);
  EXPECT_EQ(Line("submission_platform")["value"], "box");
  EXPECT_EQ(Line("epoch_start")["metadata"]["epoch_num"], 1);
  EXPECT_EQ(Line("eval_accuracy")["value"], 0.5);
  EXPECT_EQ(Line("eval_accuracy")["metadata"]["epoch_num"], 1);
  EXPECT_EQ(Line("run_stop")["metadata"]["status"], "success");
  EXPECT_EQ(Line("run_stop")["metadata"]["epoch_num"], 2);
  EXPECT_EQ(Line("block_start")["event_type"], "INTERVAL_START");
  EXPECT_EQ(Line("seed")["event_type"], "POINT_IN_TIME");
  EXPECT_FALSE(state_.requests.stop);
}

TEST_F(MLPerfTest, WithoutTheTargetTheRunIsAborted) {
  MLPerfCallback callback(Some(), clock_);
  Begin(callback);
  Epoch(callback, 0.5);
  ASSERT_TRUE(callback.Close(state_, logger_).ok());
  EXPECT_EQ(Keys().back(), "run_stop");
  EXPECT_EQ(Line("run_stop")["metadata"]["status"], "aborted");
}

TEST_F(MLPerfTest, OtherDurationsCountSamplesFromEvaluationToEvaluation) {
  state_.max_duration = Time::Batches(8);
  MLPerfCallback::Options options = Some();
  options.cache_clear_cmd = "";
  options.exit_at_target = true;
  options.metric_name = "CrossEntropy";
  options.better = Better::kLess;
  MLPerfCallback callback(options, clock_);
  Begin(callback);
  Fired(callback, Event::kEpochStart);
  Advance(absl::Seconds(1), 32);
  state_.evaluation.label = "eval";
  logger_.Log("metrics/eval/CrossEntropy", 2);
  Fired(callback, Event::kEvalStart), Fired(callback, Event::kEvalEnd);
  Advance(absl::Seconds(1), 32);
  EXPECT_FALSE(state_.requests.stop);
  logger_.Log("metrics/eval/CrossEntropy", 0.7);
  Fired(callback, Event::kEvalStart), Fired(callback, Event::kEvalEnd);
  const std::vector<std::string> keys = Keys();
  EXPECT_EQ(keys[0], "init_start");
  const auto start = std::find(keys.begin(), keys.end(), "run_start");
  EXPECT_EQ(absl::StrJoin(start, keys.end(), " "),
            "run_start block_start block_stop eval_start eval_stop eval_accuracy block_start block_stop eval_start "
            "eval_stop eval_accuracy run_stop");
  EXPECT_EQ(Line("run_stop")["metadata"]["samples_count"], 64);
  EXPECT_TRUE(state_.requests.stop);
}

TEST_F(MLPerfTest, SettingsAreCountedAndTheUsersWin) {
  state_.identity.world_size = state_.identity.data_ranks = 2, state_.settings.device_train_microbatch_size = 6;
  MLPerfCallback::Options options = Some();
  options.hyperparameters = {{"train_samples", "1281167"}, {"lars_epsilon", "0.5"}, {"opt_name", "lars"}};
  MLPerfCallback callback(options, clock_);
  Begin(callback);
  EXPECT_EQ(Line("gradient_accumulation_steps")["value"], 3);  // 16 per rank, in 6, 6 and 4
  EXPECT_EQ(Line("train_samples")["value"], 1281167);
  EXPECT_EQ(Line("lars_epsilon")["value"], 0.5);
  EXPECT_EQ(Line("opt_name")["value"], "lars");
}

TEST_F(MLPerfTest, OtherEvaluationsDoNotCountAndAMissingMetricIsNamed) {
  MLPerfCallback callback(Some(), clock_);
  Begin(callback);
  const size_t before = Lines().size();
  Evaluated(callback, 1, "other");
  EXPECT_EQ(Lines().size(), before);
  state_.evaluation.label = "eval";
  EXPECT_THAT(std::string(Fire(callback, Event::kEvalEnd).message()),
              HasSubstr("the evaluation has no metric metrics/eval/MulticlassAccuracy"));
}

TEST_F(MLPerfTest, AResultIsNotOverwritten) {
  {
    MLPerfCallback callback(Some(), clock_);
    Begin(callback);
  }
  MLPerfCallback second(Some(), clock_);
  Fired(second, Event::kInit);
  const absl::Status status = Fire(second, Event::kFitStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("result_0.txt is there already; give another index"));
  MLPerfCallback::Options again = Some();
  again.may_replace = true;
  MLPerfCallback third(again, clock_);
  Begin(third);
  EXPECT_EQ(Keys().size(), 17u);
}

TEST_F(MLPerfTest, AResumedRunGoesOnWithItsFile) {
  MLPerfCallback first(Some(), clock_);
  Begin(first);
  Epoch(first, 0.5);
  const size_t before = Lines().size();
  MLPerfCallback second(Some(), clock_);
  ASSERT_TRUE(second.LoadState(first.SaveState()).ok());
  Begin(second);
  EXPECT_EQ(Lines().size(), before);
  Epoch(second, 0.9);
  EXPECT_EQ(Line("run_stop")["metadata"]["epoch_num"], 2);
  MLPerfCallback third(Some(), clock_);
  ASSERT_TRUE(third.LoadState(second.SaveState()).ok());
  const size_t done = Lines().size();
  Begin(third);
  Epoch(third, 0.9);
  EXPECT_EQ(Lines().size(), done);
}

TEST_F(MLPerfTest, RankOneWritesNothing) {
  state_.identity.rank = 1;
  MLPerfCallback callback(Some(), clock_);
  Begin(callback);
  Epoch(callback, 0.9);
  ASSERT_TRUE(callback.Close(state_, logger_).ok());
  EXPECT_FALSE(PathExists(dir_.Path("mlperf")));
}

TEST_F(MLPerfTest, TheCacheIsClearedByTheFirstRankOfANode) {
  MLPerfCallback::Options options = Some();
  options.cache_clear_cmd = "touch '" + dir_.Path("cleared") + "'";
  options.local_rank = 1;
  MLPerfCallback second(options, clock_);
  Fired(second, Event::kInit);
  EXPECT_FALSE(PathExists(dir_.Path("cleared")));
  options.local_rank = 0;
  MLPerfCallback first(options, clock_);
  Fired(first, Event::kInit);
  EXPECT_TRUE(PathExists(dir_.Path("cleared")));
  options.cache_clear_cmd = "exit 3";
  MLPerfCallback failing(options, clock_);
  EXPECT_THAT(std::string(Fire(failing, Event::kInit).message()), HasSubstr("cache_clear_cmd: `exit 3` failed"));
}

TEST_F(MLPerfTest, TheSystemIsDescribed) {
  MLPerfCallback::Options options = Some();
  options.system_name = "";
  options.local_world_size = 2;
  options.submitter = "someone";
  state_.identity.world_size = 4;
  const Json system = Json::parse(MlperfSystemJson(options, state_));
  EXPECT_EQ(system["submitter"], "someone");
  EXPECT_EQ(system["number_of_nodes"], "2");
  EXPECT_THAT(system["system_name"].get<std::string>(), StartsWith("4x"));
  EXPECT_EQ(system["system_name"].get<std::string>().find_first_of(" /"), std::string::npos);
  EXPECT_EQ(system["accelerators_per_node"], "0");
  EXPECT_THAT(system["framework"].get<std::string>(), HasSubstr("LibTorch"));
  MLPerfCallback callback(Some(), clock_);
  Begin(callback);
  EXPECT_EQ(Json::parse(ReadFile(dir_.Path("mlperf/systems/box.json")).value())["system_name"], "box");
}

}  // namespace
}  // namespace composer
