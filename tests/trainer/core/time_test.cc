// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/time.h"

#include <gtest/gtest.h>

#include "trainer/core/event.h"

namespace composer {
namespace {

TEST(Time, ParsesWhatComposerParsesAndWallClock) {
  const std::vector<std::pair<const char*, Time>> table = {{"10ep", Time::Epochs(10)},
                                                           {"10 ba", Time::Batches(10)},
                                                           {"1.5e9tok", Time::Tokens(1500000000)},
                                                           {"3SP", Time::Samples(3)},
                                                           {"0.25dur", Time::Duration(0.25)},
                                                           {"2iter", Time::Iterations(2)},
                                                           {"30sec", Time::Seconds(30)},
                                                           {"-5ba", Time::Batches(-5)},
                                                           {"1h30m", Time::Seconds(5400)},
                                                           {"90m", Time::Seconds(5400)},
                                                           {"24h", Time::Seconds(86400)},
                                                           {"90s", Time::Seconds(90)},
                                                           {"1h2m3s", Time::Seconds(3723)},
                                                           {"7", Time::Epochs(7)},
                                                           {"1e3ba", Time::Batches(1000)}};
  for (const auto& [text, expected] : table) {
    const auto parsed = ParseTime(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, expected) << text << " gave " << parsed->ToString();
  }
  EXPECT_EQ(*ParseTime("7", TimeUnit::kBatch), Time::Batches(7));
}

TEST(Time, RefusesEverythingElseAndSaysWhy) {
  for (const char* text :
       {"", "ep", "1.5ep", "10xx", "1e400ba", "nan ba", "1m2h", "10 20ba", "99999999999999999999ba", "1h30"}) {
    const auto parsed = ParseTime(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("iter, ep, ba, sp, tok, dur, sec"), std::string::npos);
  }
}

TEST(Time, PrintsAsItParses) {
  for (const char* text : {"10ep", "500ba", "0.25dur", "3tok", "12sec"}) EXPECT_EQ(ParseTime(text)->ToString(), text);
}

TEST(Timestamp, CountsBatchesEpochsAndClock) {
  Timestamp now;
  now.ToNextBatch(32, 100, absl::Seconds(2));
  now.ToNextBatch(16, 50, absl::Seconds(1));
  EXPECT_EQ(now.batch, 2);
  EXPECT_EQ(now.sample, 48);
  EXPECT_EQ(now.token_in_epoch, 150);
  EXPECT_EQ(now.total_wct, absl::Seconds(3));
  EXPECT_EQ(now.batch_wct, absl::Seconds(1));
  now.ToNextEpoch();
  EXPECT_EQ(now.epoch, 1);
  EXPECT_EQ(now.batch_in_epoch, 0);
  EXPECT_EQ(now.sample, 48);
  const auto copy = Timestamp::FromJson(now.ToJson());
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->ToJson(), now.ToJson());
}

TEST(Timestamp, RefusesBadJson) {
  EXPECT_FALSE(Timestamp::FromJson("[]").ok());
  EXPECT_FALSE(Timestamp::FromJson("{\"batch\": 1}").ok());
  Timestamp now;
  std::string json = now.ToJson();
  json.replace(json.find("\"batch\":0"), 9, "\"batch\":-1");
  EXPECT_FALSE(Timestamp::FromJson(json).ok());
}

TEST(IntervalCrossed, FiresWhenAMultipleIsCrossed) {
  Timestamp before, after;
  before.batch = 9, after.batch = 10;
  before.sample = 90, after.sample = 130;
  EXPECT_TRUE(IntervalCrossed(Time::Batches(5), before, after));
  EXPECT_FALSE(IntervalCrossed(Time::Batches(7), before, after));
  EXPECT_TRUE(IntervalCrossed(Time::Samples(100), before, after));
  EXPECT_FALSE(IntervalCrossed(Time::Batches(0), before, after));
  EXPECT_DOUBLE_EQ(ElapsedFraction(after, Time::Batches(100)), 0.1);
}

TEST(CountedInterval, IsAShareOfTheRunRoundedUp) {
  EXPECT_EQ(CountedInterval(Time::Duration(0.1), Time::Batches(100), 5), Time::Batches(10));
  EXPECT_EQ(CountedInterval(Time::Duration(0.25), Time::Epochs(2), 5), Time::Batches(3));
  EXPECT_EQ(CountedInterval(Time::Duration(1), Time::Epochs(2), 5), Time::Batches(10));
  EXPECT_EQ(CountedInterval(Time::Duration(0.5), Time::Samples(7), 5), Time::Samples(4));
  EXPECT_EQ(CountedInterval(Time::Duration(0), Time::Epochs(2), 5), Time::Batches(0));
  EXPECT_EQ(CountedInterval(Time::Epochs(3), Time::Epochs(9), 5), Time::Epochs(3));
}

TEST(Event, ThereAreFortyAndTheyHaveComposersNames) {
  EXPECT_EQ(kNumEvents, 40);
  EXPECT_EQ(EventName(Event::kInit), "init");
  EXPECT_EQ(EventName(Event::kFitEnd), "fit_end");
  EXPECT_EQ(EventName(Event::kEvalStandaloneEnd), "eval_standalone_end");
  EXPECT_EQ(EventName(Event::kPredictEnd), "predict_end");
  EXPECT_TRUE(IsAfterEvent(Event::kAfterLoad));
  EXPECT_FALSE(IsAfterEvent(Event::kBatchEnd));
}

}  // namespace
}  // namespace composer
