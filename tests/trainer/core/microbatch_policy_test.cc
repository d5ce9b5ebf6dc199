#include "trainer/core/microbatch_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace composer {
namespace {

// The result of steps on a machine on which `fits(step)` samples fit: the size after each step, and the number of
// failures.
struct Outcome {
  int64_t size = 0;
  int failures = 0;
  bool gave_up = false;
};
template <typename Fits>
Outcome Simulate(MicrobatchPolicy& policy, int steps, int64_t batch, Fits fits) {
  Outcome outcome;
  for (int step = 0; step < steps && !outcome.gave_up; ++step) {
    while (std::min(policy.size(), batch) > fits(step)) {
      ++outcome.failures;
      if (!policy.OnOutOfMemory(batch).ok()) {
        outcome.gave_up = true;
        break;
      }
    }
    policy.OnFit(batch);
  }
  outcome.size = policy.size();
  return outcome;
}

TEST(MicrobatchPolicy, FindsSizesThatAreNoPowersOfTwo) {
  for (const int64_t limit : {1, 2, 3, 5, 11, 37, 63, 64, 100}) {
    MicrobatchPolicy policy(64);
    const Outcome outcome = Simulate(policy, 2000, 64, [&](int) { return limit; });
    EXPECT_FALSE(outcome.gave_up);
    EXPECT_LE(outcome.failures, 12) << limit;
    EXPECT_LE(outcome.size, std::min<int64_t>(limit, 64));
    EXPECT_GE(outcome.size, std::min<int64_t>(limit, 64) * 3 / 4) << limit;
  }
}

TEST(MicrobatchPolicy, NeverTriesAgainForNothing) {
  MicrobatchPolicy policy(64);
  const Outcome first = Simulate(policy, 100, 64, [](int) { return 64; });
  EXPECT_EQ(first.failures, 0);
  EXPECT_EQ(first.size, 64);
}

TEST(MicrobatchPolicy, GrowsBackWhenMemoryIsFreeAgain) {
  MicrobatchPolicy policy(32);
  const Outcome outcome = Simulate(policy, 3000, 32, [](int step) { return step < 50 ? 5 : 1000; });
  EXPECT_EQ(outcome.size, 32);
}

TEST(MicrobatchPolicy, ShrinksWhenMemoryBecomesScarce) {
  MicrobatchPolicy policy(32);
  const Outcome outcome = Simulate(policy, 400, 32, [](int step) { return step < 100 ? 32 : 3; });
  EXPECT_LE(outcome.size, 3);
  EXPECT_FALSE(outcome.gave_up);
}

TEST(MicrobatchPolicy, FailuresOnTheEdgeBecomeRare) {
  MicrobatchPolicy policy(64);
  Simulate(policy, 5000, 64, [](int) { return 63; });
  const Outcome later = Simulate(policy, 5000, 64, [](int) { return 63; });
  EXPECT_LE(later.failures, 3);
}

TEST(MicrobatchPolicy, GivesUpWhenOneSampleDoesNotFit) {
  MicrobatchPolicy policy(4);
  EXPECT_TRUE(policy.OnOutOfMemory(4).ok());
  EXPECT_TRUE(policy.OnOutOfMemory(4).ok());
  EXPECT_EQ(policy.OnOutOfMemory(4).code(), absl::StatusCode::kResourceExhausted);
}

TEST(MicrobatchPolicy, AShortLastBatchProvesNothing) {
  MicrobatchPolicy policy(16);
  ASSERT_TRUE(policy.OnOutOfMemory(16).ok());
  for (int i = 0; i < 1000; ++i) policy.OnFit(3);
  EXPECT_EQ(policy.size(), 8);
}

TEST(MicrobatchPolicy, IsRememberedAndCutToASmallerBatch) {
  MicrobatchPolicy policy(64);
  ASSERT_TRUE(policy.OnOutOfMemory(64).ok());
  ASSERT_TRUE(policy.OnOutOfMemory(64).ok());
  MicrobatchPolicy resumed(64);
  ASSERT_TRUE(resumed.LoadState(policy.SaveState()).ok());
  EXPECT_EQ(resumed.size(), 16);
  EXPECT_EQ(resumed.SaveState(), policy.SaveState());
  resumed.LimitTo(10);
  EXPECT_EQ(resumed.size(), 10);
  EXPECT_EQ(resumed.LoadState("{}").code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace composer
