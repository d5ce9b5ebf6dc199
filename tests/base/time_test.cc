// Compares times with those of mosaicml 0.32.1 (tests/golden/time.json).
// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/time_arithmetic.h"
#include "trainer/core/event.h"

namespace composer {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const Json& Golden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/time.json").value()));
  return *golden;
}

void ExpectTime(const absl::StatusOr<Time>& got, const Json& value, const Json& unit) {
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(TimeUnitName(got->unit()), unit.get<std::string>());
  EXPECT_EQ(got->value(), value.get<double>()) << got->ToString();
}

TEST(Time, ParsesWhatComposerParses) {
  ASSERT_GE(Golden()["valid"].size(), 40u);
  for (const Json& row : Golden()["valid"]) {
    SCOPED_TRACE(row.dump());
    ExpectTime(ParseTime(row["text"].get<std::string>()), row["value"], row["unit"]);
  }
}

TEST(Time, RefusesWhatComposerRefuses) {
  ASSERT_GE(Golden()["invalid"].size(), 30u);
  for (const Json& row : Golden()["invalid"]) {
    EXPECT_EQ(ParseTime(row["text"].get<std::string>()).status().code(), absl::StatusCode::kInvalidArgument) << row;
  }
}

TEST(Time, DiffersFromComposerOnPurpose) {
  ASSERT_GE(Golden()["ours_differ"].size(), 20u);
  for (const Json& row : Golden()["ours_differ"]) {
    SCOPED_TRACE(row.dump());
    const absl::StatusOr<Time> got = ParseTime(row["text"].get<std::string>());
    EXPECT_EQ(got.ok(), row["ours"].contains("value"));
    if (got.ok()) ExpectTime(got, row["ours"]["value"], row["ours"]["unit"]);
  }
}

TEST(Time, ABareNumberIsInTheUnitAskedFor) {
  EXPECT_EQ(*ParseTime("7"), Time::Epochs(7));
  EXPECT_EQ(*ParseTime("7", TimeUnit::kBatch), Time::Batches(7));
  EXPECT_EQ(*ParseTime("0.5", TimeUnit::kDuration), Time::Duration(0.5));
}

// An operand is a text with its unit. A bare number beside + - % < > == counts in the other operand's unit.
absl::StatusOr<Time> Calculate(const Json& row) {
  const Time a = ParseTime(row["a"].get<std::string>()).value();
  const char op = row["op"].get<std::string>()[0];
  if (row["b"].is_number() && (op == '*' || op == '/'))
    return op == '*' ? Multiply(a, row["b"].get<double>()) : Divide(a, row["b"].get<double>());
  const std::string text = row["b"].is_number() ? row["b"].dump() : row["b"].get<std::string>();
  const Time b = ParseTime(text, a.unit()).value();
  return op == '+'   ? Add(a, b)
         : op == '-' ? Subtract(a, b)
         : op == '%' ? Remainder(a, b)
         : op == '/' ? Divide(a, b)
                     : Multiply(a, b);
}

void ExpectComparison(const Json& row) {
  const Time a = ParseTime(row["a"].get<std::string>()).value();
  const Time b = ParseTime(row["b"].is_number() ? row["b"].dump() : row["b"].get<std::string>(), a.unit()).value();
  const absl::StatusOr<int> order = Compare(a, b);
  ASSERT_EQ(order.ok(), !row.contains("error")) << order.status();
  if (!order.ok()) return;
  const char op = row["op"].get<std::string>()[0];
  EXPECT_EQ(op == '<' ? *order < 0 : op == '>' ? *order > 0 : *order == 0, row["result"].get<bool>());
  if (op == '=') EXPECT_EQ(a == b, row["result"].get<bool>());
}

TEST(TimeArithmetic, IsComposers) {
  int compared = 0, refused = 0;
  for (const Json& row : Golden()["arithmetic"]) {
    SCOPED_TRACE(row.dump());
    if (std::string("<>=").find(row["op"].get<std::string>()[0]) != std::string::npos) {
      ExpectComparison(row);
      ++compared;
    } else if (row.contains("error")) {
      EXPECT_EQ(Calculate(row).status().code(), absl::StatusCode::kInvalidArgument);
      ++refused;
    } else {
      ExpectTime(Calculate(row), row["result"][0], row["result"][1]);
    }
  }
  EXPECT_GE(compared, 8);
  EXPECT_GE(refused, 10);
}

TEST(TimeArithmetic, SaysWhatIsWrong) {
  const auto message = [](const absl::StatusOr<Time>& result) { return std::string(result.status().message()); };
  EXPECT_THAT(message(Add(Time::Epochs(5), Time::Batches(3))), HasSubstr("time 5ep + 3ba: the units differ"));
  EXPECT_THAT(std::string(Compare(Time::Epochs(5), Time::Batches(3)).status().message()),
              HasSubstr("5ep compared with 3ba"));
  EXPECT_THAT(message(Divide(Time::Epochs(5), Time::Epochs(0))), HasSubstr("5ep / 0ep: the result is not a number"));
  EXPECT_THAT(message(Divide(Time::Epochs(0), 0)), HasSubstr("0ep / 0: the result is not a number"));
  EXPECT_THAT(message(Multiply(Time::Tokens(int64_t{1} << 52), 3)), HasSubstr("beyond 2^53"));
  EXPECT_THAT(message(Multiply(Time::Tokens(5), Time::Tokens(5))), HasSubstr("a share of the run (dur)"));
  EXPECT_FALSE(Time::Epochs(5) == Time::Batches(5)) << "where Composer raises";
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

TEST(Timestamp, MovesAsComposers) {
  Timestamp now;
  for (const Json& row : Golden()["timestamps"]) {
    SCOPED_TRACE(row.dump());
    const Json& args = row["args"];
    if (row["step"] == "batch") {
      now.ToNextBatch(args[0], args[1], absl::Seconds(args[2].get<double>()));
    } else if (row["step"] == "epoch") {
      now.ToNextEpoch(absl::Seconds(args[0].get<double>()));
    } else {
      now.ToNextIteration(absl::Seconds(args[0].get<double>()));
    }
    EXPECT_EQ(Json::parse(now.ToJson()), row["after"]);
    const auto copy = Timestamp::FromJson(now.ToJson());
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(copy->ToJson(), now.ToJson());
  }
  EXPECT_EQ(now.iteration, 2);
  const std::vector<std::pair<TimeUnit, int64_t>> counts = {
      {TimeUnit::kIteration, now.iteration}, {TimeUnit::kEpoch, now.epoch}, {TimeUnit::kBatch, now.batch},
      {TimeUnit::kSample, now.sample},       {TimeUnit::kToken, now.token}, {TimeUnit::kSecond, 12}};
  for (const auto& [unit, count] : counts) EXPECT_EQ(now.Get(unit), count) << TimeUnitName(unit);
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
