// Tests the arguments of EMA: defaults, derived values, and the messages for invalid ones.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/ema_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace composer {
namespace {

using testing::HasSubstr;

TEST(EmaOptions, SmoothingFollowsFromTheHalfLife) {
  struct Row {
    EmaArguments arguments;
    double smoothing;
    Time interval;
  };
  const Row rows[] = {
      {{}, std::exp2(-1.0 / 1000), Time::Batches(1)},
      {{.half_life = Time::Batches(100)}, std::exp2(-0.01), Time::Batches(1)},
      {{.half_life = Time::Epochs(2)}, std::exp2(-0.5), Time::Epochs(1)},
      {{.half_life = Time::Batches(100), .update_interval = Time::Batches(20)}, std::exp2(-0.2), Time::Batches(20)},
      {{.half_life = Time::Epochs(1), .update_interval = Time::Epochs(3)}, std::exp2(-3), Time::Epochs(3)},
      {{.smoothing = 0.99}, 0.99, Time::Batches(1)},
      {{.smoothing = 0.5, .update_interval = Time::Epochs(1)}, 0.5, Time::Epochs(1)},
  };
  for (const Row& row : rows) {
    const auto options = ResolveEma(row.arguments);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_DOUBLE_EQ(options->smoothing, row.smoothing);
    EXPECT_EQ(options->update_interval, row.interval);
  }
}

TEST(EmaOptions, RefusesWhatContradicts) {
  struct Row {
    EmaArguments arguments;
    const char* message;
  };
  const Row rows[] = {
      {{.half_life = Time::Batches(100), .smoothing = 0.9}, "smoothing: 0.9 and half_life: 100ba; give one of the two"},
      {{.half_life = Time::Samples(100)}, "half_life: 100sp, allowed are batches (ba) or epochs (ep), more than 0"},
      {{.half_life = Time::Batches(0)}, "half_life: 0ba, allowed are"},
      {{.half_life = Time::Batches(100), .update_interval = Time::Epochs(1)},
       "update_interval: 1ep and half_life: 100ba; both must be in batches or both in epochs"},
      {{.update_interval = Time::Epochs(1)}, "update_interval: 1ep and half_life: 1000ba"},
      {{.smoothing = 0.9, .update_interval = Time::Duration(0.1)}, "update_interval: 0.1dur, allowed are batches"},
      {{.smoothing = 0.9, .update_interval = Time::Batches(-1)}, "update_interval: -1ba, allowed are batches"},
      {{.smoothing = 1}, "smoothing: 1, allowed are numbers between 0 and 1"},
      {{.smoothing = 0}, "smoothing: 0, allowed are"},
      {{.smoothing = std::nan("")}, "smoothing: nan, allowed are"},
      {{.ema_start = Time::Duration(1.5)}, "ema_start: 1.5dur, must not be negative nor more than 1dur"},
      {{.ema_start = Time::Batches(-2)}, "ema_start: -2ba, must not be negative"},
  };
  for (const Row& row : rows) {
    const absl::Status status = ResolveEma(row.arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message));
  }
}

TEST(EmaOptions, BeginsAtAnyKindOfTime) {
  Timestamp now;
  now.epoch = 1, now.batch = 7, now.sample = 50, now.token = 600;
  struct Row {
    Time start;
    bool is_due;
  };
  const Row rows[] = {{Time::Duration(0), true},   {Time::Duration(0.7), true}, {Time::Duration(0.71), false},
                      {Time::Batches(7), true},    {Time::Batches(8), false},   {Time::Epochs(1), true},
                      {Time::Epochs(2), false},    {Time::Samples(50), true},   {Time::Samples(51), false},
                      {Time::Tokens(600), true},   {Time::Tokens(601), false},  {Time::Iterations(0), true},
                      {Time::Iterations(1), false}};
  for (const Row& row : rows)
    EXPECT_EQ(EmaIsDue(row.start, now, Time::Batches(10)), row.is_due) << row.start.ToString();
}

}  // namespace
}  // namespace composer
