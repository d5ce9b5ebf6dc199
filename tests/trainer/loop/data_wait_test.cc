// Tests which share of a step is said to be spent waiting for data.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/data_wait.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/loggers/in_memory.h"

namespace composer {
namespace {

TEST(DataWait, IsThatOfTheLastSteps) {
  DataWait wait;
  wait.Add(absl::Seconds(90), absl::Seconds(100));
  EXPECT_TRUE(std::isnan(wait.share())) << "nothing could be loaded ahead of the first batch";
  wait.Add(absl::Seconds(1), absl::Seconds(4));
  EXPECT_DOUBLE_EQ(wait.share(), 0.25);
  wait.Add(absl::Seconds(3), absl::Seconds(4));
  EXPECT_NEAR(wait.share(), 0.5, 0.01);
  for (int i = 0; i < 200; ++i) wait.Add(absl::ZeroDuration(), absl::Seconds(4));
  EXPECT_LT(wait.share(), 0.01) << "what was long ago counts no more";
  wait.Add(absl::Seconds(5), absl::Seconds(-1));
  EXPECT_GE(wait.share(), 0) << "the clock was set back";
  wait.Restart();
  EXPECT_TRUE(std::isnan(wait.share()));
}

class LastShare final : public Supervision {
 public:
  void OnStep(int64_t batch, int64_t samples, double loss, double data_wait) override { share_ = data_wait; }
  double share() const { return share_; }

 private:
  double share_ = 0;
};

// A batch is loaded in 1 s, what follows takes 3 s, and an evaluation of 100 s counts neither as one nor as the other.
TEST(DataWait, IsMeasuredWhereTheLoopTakesABatch) {
  TrainerOptions options = SmallRun();
  ManualClock clock;
  LastShare supervision;
  options.clock = &clock;
  options.supervision = &supervision;
  options.train.spec.batch_transform = [&](Batch batch) {
    clock.Advance(absl::Seconds(1));
    return batch;
  };
  AddCallback(options, {Event::kBatchEnd}, [&](State&) { clock.Advance(absl::Seconds(3)); });
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(8);
  evaluator.eval_interval = Time::Batches(1);
  options.evaluators.push_back(evaluator);
  AddCallback(options, {Event::kEvalEnd}, [&](State&) { clock.Advance(absl::Seconds(100)); });
  MetricHistory history;
  options.loggers.push_back(std::make_unique<InMemoryLogger>(&history));
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_DOUBLE_EQ(supervision.share(), 0.25);
  const std::vector<double> logged = history.Values("throughput/data_wait");
  ASSERT_EQ(logged.size(), static_cast<size_t>(result.timestamp.batch - 1)) << "not of the first step";
  EXPECT_DOUBLE_EQ(logged.back(), 0.25);
}

}  // namespace
}  // namespace composer
