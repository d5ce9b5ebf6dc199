// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/observe_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Follower final : public Scheduler {
 public:
  Follower(std::string monitor, bool every_batch) : monitor_(std::move(monitor)), every_batch_(every_batch) {}
  double Factor(const Timestamp&, const ScheduleContext&) const override { return 1; }
  absl::string_view monitor() const override { return monitor_; }
  bool observes_every_batch() const override { return every_batch_; }
  void Observe(double value) override { seen.push_back(value); }
  std::vector<double> seen;

 private:
  std::string monitor_;
  bool every_batch_;
};

// Returns what a schedule with this monitor sees of a run with one epoch of two batches and three evaluations.
std::vector<double> Seen(const std::string& monitor, bool every_batch) {
  SchedulerList schedulers;
  schedulers.push_back(std::make_unique<Follower>(monitor, every_batch));
  Logger logger;
  const auto at = [&](Event event, absl::string_view label = "") { ObserveMetrics(schedulers, event, label, logger); };
  logger.Log("loss/train/total", 1);
  logger.Log("metrics/train/Accuracy", 10);
  at(Event::kBatchEnd);
  logger.Log("loss/train/total", 2);
  logger.Log("metrics/eval/Accuracy", 100);
  at(Event::kEvalEnd, "eval");
  logger.Log("metrics/evaluation/Accuracy", 200);
  at(Event::kEvalEnd, "evaluation");
  at(Event::kBatchEnd);
  logger.Log("metrics/eval/Accuracy", 101);
  at(Event::kEvalEnd, "eval");
  at(Event::kEpochEnd);
  return static_cast<const Follower&>(*schedulers[0]).seen;
}

TEST(ObserveMetricsTest, NewsComeWhenTheyAreMade) {
  EXPECT_THAT(Seen("loss/train/total", true), ElementsAre(1, 2));
  EXPECT_THAT(Seen("loss/train/total", false), ElementsAre(2));
  EXPECT_THAT(Seen("metrics/train/Accuracy", true), ElementsAre(10, 10));
  EXPECT_THAT(Seen("metrics/train/Accuracy", false), ElementsAre(10));
  EXPECT_THAT(Seen("metrics/eval/Accuracy", true), ElementsAre(100, 101));
  EXPECT_THAT(Seen("metrics/eval/Accuracy", false), ElementsAre(100, 101));
  EXPECT_THAT(Seen("metrics/evaluation/Accuracy", false), ElementsAre(200));
  EXPECT_THAT(Seen("metrics/eval/Unknown", false), IsEmpty());
  EXPECT_THAT(Seen("", true), IsEmpty());
}

}  // namespace
}  // namespace composer
