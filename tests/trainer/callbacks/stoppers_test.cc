// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/callbacks/stops/early_stopper.h"
#include "trainer/callbacks/stops/threshold_stopper.h"

namespace composer {
namespace {

constexpr char kAccuracy[] = "metrics/eval/MulticlassAccuracy";

class StopperTest : public CallbackTest {
 protected:
  // Runs an epoch that ends with this value of the metric. Returns whether the run is to stop.
  bool Epoch(Callback& callback, const char* metric, double value) {
    state_.timestamp.ToNextEpoch();
    logger_.Log(metric, value);
    EXPECT_TRUE(Fire(callback, Event::kEvalEnd).ok());
    return state_.requests.stop;
  }
  bool BatchWith(Callback& callback, const char* metric, double value) {
    logger_.Log(metric, value);
    Step(callback, absl::Seconds(1));
    return state_.requests.stop;
  }
};

TEST(LessIsBetterTest, GoesByTheName) {
  for (const char* name :
       {"loss/train/total", "metrics/eval/CrossEntropy", "metrics/eval/LanguagePerplexity", "MeanError"})
    EXPECT_TRUE(LessIsBetterByName(name)) << name;
  for (const char* name : {kAccuracy, "throughput/batches_per_sec"}) EXPECT_FALSE(LessIsBetterByName(name)) << name;
}

TEST_F(StopperTest, EarlyStopperBearsPatienceEpochsWithoutABetterValue) {
  EarlyStopper stopper({.monitor = kAccuracy});
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.5));
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.6));
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.6));  // equal is not better
  EXPECT_TRUE(Epoch(stopper, kAccuracy, 0.55));
}

TEST_F(StopperTest, EarlyStopperWantsMoreThanMinDelta) {
  EarlyStopper stopper({.monitor = "metrics/eval/CrossEntropy", .min_delta = 0.125, .patience = Time::Epochs(0)});
  EXPECT_FALSE(Epoch(stopper, "metrics/eval/CrossEntropy", 1.0));
  EXPECT_FALSE(Epoch(stopper, "metrics/eval/CrossEntropy", 0.75));
  EXPECT_TRUE(Epoch(stopper, "metrics/eval/CrossEntropy", 0.625));
}

TEST_F(StopperTest, EarlyStopperOfABatchMetricCountsInItsUnit) {
  EarlyStopper stopper({.monitor = "loss/train/total", .patience = Time::Batches(2)});
  EXPECT_FALSE(BatchWith(stopper, "loss/train/total", 1.0));
  EXPECT_FALSE(BatchWith(stopper, "loss/train/total", NAN));
  EXPECT_FALSE(BatchWith(stopper, "loss/train/total", 1.5));
  EXPECT_TRUE(BatchWith(stopper, "loss/train/total", 1.25));
}

TEST_F(StopperTest, PatienceMayBeAShareOfTheRun) {
  EarlyStopper stopper({.monitor = kAccuracy, .patience = Time::Duration(0.5)});  // 1 of 2 epochs
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.5));
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.5));
  EXPECT_TRUE(Epoch(stopper, kAccuracy, 0.5));
}

TEST_F(StopperTest, OtherEvaluatorsAndUnchangedValuesAreNoNews) {
  EarlyStopper stopper({.monitor = kAccuracy, .patience = Time::Batches(0)});
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.5));
  state_.evaluation.label = "other";
  Step(stopper, absl::Seconds(1));
  EXPECT_FALSE(Epoch(stopper, "metrics/other/MulticlassAccuracy", 0.25));
  EXPECT_FALSE(state_.requests.stop);
}

TEST_F(StopperTest, ATrainMetricIsLookedAtAtTheEndOfEachEpochWhenPatienceIsInEpochs) {
  EarlyStopper stopper({.monitor = "metrics/train/CrossEntropy", .patience = Time::Epochs(2)});
  const auto epoch_of = [&](double best, double last) {
    EXPECT_FALSE(BatchWith(stopper, "metrics/train/CrossEntropy", best));  // a lucky batch is ignored
    EXPECT_FALSE(BatchWith(stopper, "metrics/train/CrossEntropy", last));
    state_.timestamp.ToNextEpoch();
    EXPECT_TRUE(Fire(stopper, Event::kEpochEnd).ok());
    return state_.requests.stop;
  };
  EXPECT_FALSE(epoch_of(0.1, 1.0));
  EXPECT_FALSE(epoch_of(0.9, 0.9));  // the best
  EXPECT_FALSE(epoch_of(0.1, 0.9));
  EXPECT_FALSE(epoch_of(0.1, 0.9));  // unchanged, but one epoch later
  EXPECT_TRUE(epoch_of(0.1, 0.95));
}

TEST_F(StopperTest, AnEvaluationsMetricIsNotLookedAtAtTheEndOfAnEpoch) {
  EarlyStopper stopper({.monitor = kAccuracy, .patience = Time::Epochs(1)});
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.5));
  for (int i = 0; i < 3; ++i) {
    state_.timestamp.ToNextEpoch();
    ASSERT_TRUE(Fire(stopper, Event::kEpochEnd).ok());
  }
  EXPECT_FALSE(state_.requests.stop);
  EXPECT_FALSE(Epoch(stopper, kAccuracy, 0.6));  // evaluated at last, and better
}

TEST(MonitoredNameTest, TakesComposersTwoNames) {
  EXPECT_EQ(MonitoredName("MulticlassAccuracy", "eval"), kAccuracy);
  EXPECT_EQ(MonitoredName(kAccuracy, "train"), kAccuracy);
  EXPECT_EQ(MonitoredName("loss/train/total", ""), "loss/train/total");
}

TEST_F(StopperTest, EarlyStopperGoesOnAfterAResume) {
  EarlyStopper first({.monitor = kAccuracy});
  EXPECT_EQ(first.SaveState(), "");
  EXPECT_FALSE(Epoch(first, kAccuracy, 0.75));
  EXPECT_FALSE(Epoch(first, kAccuracy, 0.5));
  EarlyStopper second({.monitor = kAccuracy});
  ASSERT_TRUE(second.LoadState(first.SaveState()).ok());
  EXPECT_TRUE(Epoch(second, kAccuracy, 0.7));
  EXPECT_EQ(second.LoadState("{}").message(), "saved state: best or best_seen is missing");
  EXPECT_FALSE(second.LoadState(R"({"best":1,"best_seen":{"epoch":-1}})").ok());
}

TEST_F(StopperTest, EarlyStopperTakesAnyNumberOverNaNAlsoFromACheckpoint) {
  EarlyStopper first({.monitor = kAccuracy, .patience = Time::Epochs(0)});
  EXPECT_FALSE(Epoch(first, kAccuracy, NAN));
  EarlyStopper second({.monitor = kAccuracy, .patience = Time::Epochs(0)});
  ASSERT_TRUE(second.LoadState(first.SaveState()).ok());
  EXPECT_FALSE(Epoch(second, kAccuracy, 0.1));
  EXPECT_TRUE(Epoch(second, kAccuracy, NAN));
}

TEST_F(StopperTest, AFunctionMayCompare) {
  const auto nearer_to_one = [](double a, double b) { return std::abs(a - 1) < std::abs(b - 1); };
  EarlyStopper early({.monitor = kAccuracy, .min_delta = 0.125, .patience = Time::Epochs(0), .compare = nearer_to_one});
  EXPECT_FALSE(Epoch(early, kAccuracy, 3));
  EXPECT_FALSE(Epoch(early, kAccuracy, 0.5));
  EXPECT_FALSE(Epoch(early, kAccuracy, 1.25));
  EXPECT_TRUE(Epoch(early, kAccuracy, 1.1875)) << "nearer, but by less than min_delta";
  state_.requests.stop = false;
  ThresholdStopper at_least({.monitor = kAccuracy, .threshold = 0.75, .compare = std::greater_equal<double>()});
  EXPECT_FALSE(Epoch(at_least, kAccuracy, NAN));
  EXPECT_FALSE(Epoch(at_least, kAccuracy, 0.5));
  EXPECT_TRUE(Epoch(at_least, kAccuracy, 0.75));
}

TEST_F(StopperTest, ThresholdStopperStopsPastTheThreshold) {
  ThresholdStopper accuracy({.monitor = kAccuracy, .threshold = 0.75});
  EXPECT_FALSE(Epoch(accuracy, kAccuracy, 0.75));
  EXPECT_FALSE(Epoch(accuracy, kAccuracy, NAN));
  EXPECT_TRUE(Epoch(accuracy, kAccuracy, 0.8));
  state_.requests.stop = false;
  ThresholdStopper loss({.monitor = "loss/train/total", .threshold = 0.5, .stop_on_batch = true});
  EXPECT_FALSE(BatchWith(loss, "loss/train/total", 0.75));
  EXPECT_TRUE(BatchWith(loss, "loss/train/total", 0.25));
  state_.requests.stop = false;
  ThresholdStopper above(
      {.monitor = "loss/train/total", .threshold = 5, .better = Better::kGreater, .stop_on_batch = true});
  EXPECT_FALSE(BatchWith(above, "loss/train/total", 4));
  EXPECT_TRUE(BatchWith(above, "loss/train/total", 6));
  state_.requests.stop = false;
  ThresholdStopper patient({.monitor = "loss/train/total", .threshold = 0.5});
  EXPECT_FALSE(BatchWith(patient, "loss/train/total", 0.25));
  ASSERT_TRUE(Fire(patient, Event::kEpochEnd).ok());
  EXPECT_TRUE(state_.requests.stop);
}

}  // namespace
}  // namespace composer
