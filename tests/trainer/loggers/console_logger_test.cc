// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/console_logger.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/state.h"
#include "trainer/loggers/value_text.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ValueTextTest, FourDecimalsAndWhatTheyWouldHide) {
  const std::pair<double, const char*> kCases[] = {{0.41234, "0.4123"},
                                                   {3, "3.0000"},
                                                   {-12.5, "-12.5000"},
                                                   {0, "0.0000"},
                                                   {1e-5, "1e-05"},
                                                   {25276502016.0, "25276502016"},
                                                   {1.2345e12, "1234500000000"},
                                                   {NAN, "nan"},
                                                   {-INFINITY, "-inf"}};
  for (const auto& [value, text] : kCases) EXPECT_EQ(ValueText(value), text);
  EXPECT_EQ(SettingText("0.1"), "0.1");
  EXPECT_EQ(SettingText("true"), "true");
  EXPECT_EQ(SettingText("10ep"), "\"10ep\"");
}

// A run of epochs of 4 batches that a test steps through, calling loggers as the loop does.
class ConsoleLoggerTest : public ::testing::Test {
 protected:
  ConsoleLoggerTest() {
    options_.fd = open(dir_.Path("out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    state_.max_duration = Time::Epochs(2);
    state_.clock.batches_per_epoch = 4;
    state_.evaluation.label = "eval";
  }
  ~ConsoleLoggerTest() override { close(options_.fd); }

  void Start(const Hyperparameters& hyperparameters = {}) {
    ConsoleLogger made = MakeConsoleLogger(options_);
    callback_ = std::move(made.callback);
    logger_.AddDestination(std::move(made.destination));
    logger_.LogHyperparameters(hyperparameters);
    Fire(Event::kFitStart);
  }
  void Fire(Event event) {
    if (callback_->events().Has(event)) ASSERT_TRUE(callback_->Run(event, state_, logger_).ok());
  }
  void Step(double loss) {
    logger_.Log("loss/train/total", loss);
    state_.timestamp.ToNextBatch(16, 0, absl::Seconds(1));
    Fire(Event::kBatchEnd);
    logger_.Flush(state_.timestamp);
  }
  void EndEpoch() {
    state_.timestamp.ToNextEpoch();
    Fire(Event::kEpochEnd);
  }
  void Evaluate(int64_t batches, bool with_metrics = true, bool known = true) {
    state_.evaluation.batches = known ? batches : 0;
    state_.evaluation.timestamp = Timestamp();
    Fire(Event::kEvalStart);
    for (int64_t i = 0; i < batches; ++i) {
      Fire(Event::kEvalBatchEnd);
      state_.evaluation.timestamp.ToNextBatch(16, 0, absl::ZeroDuration());
    }
    if (with_metrics) logger_.Log("metrics/eval/Accuracy", 0.875);
    Fire(Event::kEvalEnd);
    logger_.Flush(state_.timestamp);
    Fire(Event::kEvalAfterAll);
  }
  std::string Written() { return ReadFile(dir_.Path("out")).value(); }
  // Returns the lines that show the progress, without the metrics below them.
  std::vector<std::string> Heads() {
    std::vector<std::string> heads;
    for (const absl::string_view line : absl::StrSplit(Written(), '\n'))
      if (!line.empty() && line[0] == '[') heads.emplace_back(line);
    return heads;
  }

  TempDir dir_;
  ConsoleOptions options_;
  State state_;
  Logger logger_;
  std::unique_ptr<Callback> callback_;
};

TEST_F(ConsoleLoggerTest, ABatchIsAHeadAndItsMetrics) {
  Start();
  Step(0.41234);
  EXPECT_EQ(Written(),
            "[epoch=1][batch=1/4]:\n\t Train time/epoch: 0\n\t Train time/batch: 1\n\t Train time/sample: 16\n"
            "\t Train time/batch_in_epoch: 1\n\t Train time/sample_in_epoch: 16\n\t Train loss/train/total: 0.4123\n");
}

TEST_F(ConsoleLoggerTest, EveryIntervalWithTheLatestValuesAndTheFirstAndLastBatch) {
  options_.interval = Time::Batches(3);
  state_.max_duration = Time::Batches(5);
  Start();
  for (int i = 1; i <= 5; ++i) Step(i);
  Fire(Event::kFitEnd);
  EXPECT_THAT(Heads(), ElementsAre("[batch=1/5]:", "[batch=3/5]:", "[batch=5/5]:"));
  EXPECT_THAT(Written(), HasSubstr("Train loss/train/total: 3.0000"));
}

TEST_F(ConsoleLoggerTest, EveryEpochAndEvaluationsInTenths) {
  options_.interval = Time::Epochs(1);
  Start();
  for (int i = 0; i < 4; ++i) Step(0.5);
  EndEpoch();
  Evaluate(20);
  for (int i = 0; i < 4; ++i) Step(0.25);
  EndEpoch();
  Evaluate(2);
  Fire(Event::kFitEnd);
  std::vector<std::string> expected = {"[epoch=1][batch=4/4]:", "[Eval batch=1/20] Eval on eval data"};
  for (int i = 2; i < 20; i += 2) expected.push_back(absl::StrCat("[Eval batch=", i, "/20] Eval on eval data"));
  expected.insert(expected.end(), {"[Eval batch=20/20] Eval on eval data:", "[epoch=2][batch=4/4]:",
                                   "[Eval batch=1/2] Eval on eval data", "[Eval batch=2/2] Eval on eval data:"});
  EXPECT_EQ(Heads(), expected);
  EXPECT_THAT(Written(), HasSubstr("data:\n\t Eval metrics/eval/Accuracy: 0.8750\n[epoch=2]"));
}

TEST_F(ConsoleLoggerTest, AnEvaluationWithoutMetricsDoesNotTakeTheNextBatchs) {
  Start();
  Evaluate(1, /*with_metrics=*/false);
  Step(0.5);
  EXPECT_THAT(Heads(), ElementsAre("[Eval batch=1/1] Eval on eval data", "[epoch=1][batch=1/4]:"));
}

TEST_F(ConsoleLoggerTest, AnEvaluationOfUnknownLengthIsShownAtItsEnd) {
  Start();
  Evaluate(7, /*with_metrics=*/true, /*known=*/false);
  EXPECT_THAT(Heads(), ElementsAre("[Eval batch=7/7] Eval on eval data:"));
}

TEST_F(ConsoleLoggerTest, HyperparametersComeOnceAndFirst) {
  Start({{"seed", "17"}, {"model/name", "mlp"}});
  Evaluate(1, false);
  const std::string stars(30, '*');
  EXPECT_EQ(Written(),
            stars + "\nConfig:\nseed: 17\nmodel/name: mlp\n" + stars + "\n[Eval batch=1/1] Eval on eval data\n");
}

TEST_F(ConsoleLoggerTest, TablesAreShownAsJsonAndABarsLineIsErased) {
  options_.erase_line = true;
  Start();
  const std::vector<std::string> columns = {"prompt"};
  const std::vector<std::vector<std::string>> rows = {{"a \"b\""}};
  logger_.LogTable({state_.timestamp, "generations", columns, rows});
  Step(0.5);
  EXPECT_THAT(Written(), HasSubstr("\r\x1b[K[epoch=1][batch=1/4]:"));
  EXPECT_THAT(Written(), HasSubstr(R"(generations: {"columns":["prompt"],"data":[["a \"b\""]]})"));
}

TEST_F(ConsoleLoggerTest, ATableAfterTheLastStepIsShownAtTheEnd) {
  Start();
  Step(0.5);
  const std::vector<std::string> columns = {"prompt"};
  const std::vector<std::vector<std::string>> rows = {{"last"}};
  logger_.LogTable({state_.timestamp, "generations", columns, rows});
  EXPECT_THAT(Written(), Not(HasSubstr("generations")));
  Fire(Event::kFitEnd);
  EXPECT_THAT(Written(), HasSubstr(R"(generations: {"columns":["prompt"],"data":[["last"]]})"));
}

}  // namespace
}  // namespace composer
