// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <thread>

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Answer = std::optional<absl::StatusOr<KeyValueStore::Values>>;

KeyValueStore::Callback Into(Answer& answer) {
  return [&answer](absl::StatusOr<KeyValueStore::Values> values) {
    EXPECT_FALSE(answer.has_value()) << "called back twice";
    answer = std::move(values);
  };
}

class KeyValueTest : public ::testing::Test {
 protected:
  KeyValueTest() { store_.Begin(1); }
  KeyValueStore store_;
};

TEST_F(KeyValueTest, GetOfWhatIsThereAnswersAtOnce) {
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}, {"b", std::string("\0x", 2)}}).ok());
  Answer answer;
  EXPECT_EQ(store_.Get(1, {"b", "a", "b"}, true, Into(answer)), 0u);
  EXPECT_THAT(**answer, ElementsAre(std::string("\0x", 2), "1", std::string("\0x", 2)));
}

TEST_F(KeyValueTest, GetWaitsUntilAllKeysAreThere) {
  Answer with, without, other;
  store_.Get(1, {"a", "b"}, true, Into(with));
  store_.Get(1, {"b", "a"}, false, Into(without));
  store_.Get(1, {"c"}, true, Into(other));
  ASSERT_TRUE(store_.Set(1, {{"b", "2"}}).ok());
  EXPECT_FALSE(with.has_value() || without.has_value());
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}}).ok());
  EXPECT_THAT(**with, ElementsAre("1", "2"));
  EXPECT_THAT(**without, ElementsAre());
  EXPECT_FALSE(other.has_value());
}

TEST_F(KeyValueTest, AllKeysMustBeThereAtOneMoment) {
  Answer answer;
  store_.Get(1, {"a", "b"}, true, Into(answer));
  ASSERT_TRUE(store_.Set(1, {{"a", "old"}}).ok());
  ASSERT_TRUE(*store_.Delete(1, "a"));
  ASSERT_TRUE(store_.Set(1, {{"b", "2"}}).ok());
  EXPECT_FALSE(answer.has_value());
  ASSERT_TRUE(store_.Set(1, {{"a", "new"}}).ok());
  EXPECT_THAT(**answer, ElementsAre("new", "2"));
}

TEST_F(KeyValueTest, AddAndCompareSetWakeWaitersToo) {
  Answer a, b;
  store_.Get(1, {"a"}, true, Into(a));
  store_.Get(1, {"b"}, true, Into(b));
  EXPECT_EQ(*store_.Add(1, "a", 4), 4);
  EXPECT_EQ(*store_.CompareSet(1, "b", "", "x"), "x");
  EXPECT_THAT(**a, ElementsAre("4"));
  EXPECT_THAT(**b, ElementsAre("x"));
}

TEST_F(KeyValueTest, CancelAnswersOnceAndForgetsTheWaiter) {
  Answer answer;
  const auto id = store_.Get(1, {"a"}, true, Into(answer));
  store_.Cancel(id, absl::DeadlineExceededError("waited 1s"));
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(answer->status().message(), "waited 1s, key \"a\" is not there");
  store_.Cancel(id, absl::CancelledError(""));
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}}).ok());
}

TEST_F(KeyValueTest, AddCountsInDecimal) {
  EXPECT_EQ(*store_.Add(1, "n", 5), 5);
  EXPECT_EQ(*store_.Add(1, "n", -7), -2);
  ASSERT_TRUE(store_.Set(1, {{"n", "40"}, {"text", "forty"}, {"max", "9223372036854775807"}}).ok());
  EXPECT_EQ(*store_.Add(1, "n", 2), 42);
  EXPECT_EQ(store_.Add(1, "text", 1).status().message(), "add: the value of key \"text\" is not a number");
  EXPECT_EQ(store_.Add(1, "max", 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(KeyValueTest, CompareSetFollowsC10d) {
  EXPECT_EQ(*store_.CompareSet(1, "k", "guess", "new"), "guess") << "absent, expected not empty: expected comes back";
  EXPECT_FALSE(store_.Check(1, {"k"})->absent.empty());
  EXPECT_EQ(*store_.CompareSet(1, "k", "", "first"), "first");
  EXPECT_EQ(*store_.CompareSet(1, "k", "wrong", "second"), "first");
  EXPECT_EQ(*store_.CompareSet(1, "k", "", "second"), "first");
  EXPECT_EQ(*store_.CompareSet(1, "k", "first", "second"), "second");
}

TEST_F(KeyValueTest, CheckSaysWhichKeysAreAbsentAfterWhichChange) {
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}, {"b", "2"}}).ok());
  ASSERT_TRUE(*store_.Delete(1, "a"));
  KeyValueStore::Change change;
  ASSERT_TRUE(store_.Set(1, {{"c", "3"}}, &change).ok());
  const auto presence = store_.Check(1, {"a", "b", "d", "c", "a"});
  ASSERT_TRUE(presence.ok()) << presence.status();
  EXPECT_EQ(presence->absent, (std::vector<uint32_t>{0, 2, 4}));
  EXPECT_EQ(presence->revision, change.revision);
}

TEST_F(KeyValueTest, CheckDeleteCount) {
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}, {"b", "2"}}).ok());
  EXPECT_TRUE(store_.Check(1, {"a", "b"})->absent.empty());
  EXPECT_TRUE(store_.Check(1, {})->absent.empty());
  EXPECT_EQ(*store_.Count(1), 2);
  EXPECT_TRUE(*store_.Delete(1, "a"));
  EXPECT_FALSE(*store_.Delete(1, "a"));
  EXPECT_FALSE(store_.Check(1, {"a", "b"})->absent.empty());
  EXPECT_EQ(*store_.Count(1), 1);
}

// Each change is sent twice, since its answer was lost, and something else happens in between.
TEST_F(KeyValueTest, AChangeThatIsSentAgainIsMadeOnce) {
  uint64_t number = 0;
  const auto twice = [&](const auto& call, const auto& meanwhile) {
    KeyValueStore::Change first{.id = {"a", ++number, number - 1}, .unsettled = {}}, again = first;
    const auto answer = call(&first);
    meanwhile();
    EXPECT_EQ(call(&again), answer);
    EXPECT_EQ(again.revision, first.revision);
    return answer;
  };
  const auto value = [&](const std::string& key) {
    Answer answer;
    EXPECT_EQ(store_.Get(1, {key}, true, Into(answer)), 0u);
    return (**answer)[0];
  };
  EXPECT_EQ(*twice([&](auto* change) { return store_.Add(1, "n", 3, change); }, [&] { *store_.Add(1, "n", 10); }), 3);
  EXPECT_EQ(value("n"), "13") << "not 16";
  EXPECT_TRUE(twice([&](auto* change) { return store_.Set(1, {{"k", "mine"}}, change); },
                    [&] { ASSERT_TRUE(store_.Set(1, {{"k", "newer"}}).ok()); })
                  .ok());
  EXPECT_EQ(value("k"), "newer") << "no change of mine comes after it";
  EXPECT_EQ(*twice([&](auto* change) { return store_.CompareSet(1, "lock", "", "mine", change); },
                   [&] { EXPECT_EQ(*store_.CompareSet(1, "lock", "mine", "next"), "next"); }),
            "mine")
      << "I had it";
  EXPECT_EQ(value("lock"), "next");
  EXPECT_TRUE(*twice([&](auto* change) { return store_.Delete(1, "k", change); },
                     [&] { ASSERT_TRUE(store_.Set(1, {{"k", "set again"}}).ok()); }));
  EXPECT_EQ(value("k"), "set again");
  KeyValueStore::Change late{.id = {"a", 1, 0}, .unsettled = {}};
  EXPECT_TRUE(absl::IsAborted(store_.Add(1, "n", 3, &late).status())) << "its answer has arrived long ago";
}

TEST_F(KeyValueTest, ACallThatChangedNothingIsEvaluatedAgain) {
  KeyValueStore::Change first{.id = {"a", 1, 0}, .unsettled = {}}, again = first;
  EXPECT_FALSE(*store_.Delete(1, "k", &first));
  EXPECT_EQ(first.revision, 0u);
  ASSERT_TRUE(store_.Set(1, {{"k", "v"}}).ok());
  EXPECT_TRUE(*store_.Delete(1, "k", &again));
}

// a's answer is lost, b's is not. Then the rendezvous is lost, and b tells the next one what it remembers.
TEST_F(KeyValueTest, AChangeThatAnotherNodeRemembersIsNotMadeAgainAfterARestart) {
  KeyValueStore::Change lost{.id = {"a", 1, 0}, .unsettled = {}}, known{.id = {"b", 1, 0}, .unsettled = {}};
  EXPECT_EQ(*store_.Add(1, "n", 1, &lost), 1);
  EXPECT_EQ(*store_.Add(1, "n", 1, &known), 2);
  ASSERT_THAT(known.unsettled, ElementsAre(MadeChange{"a", 1, 1, 1}));
  KeyValueStore next;
  next.Restore(1, {{"n", "2", known.revision, false, known.unsettled}});
  next.Begin(1, /*resumed=*/true);
  EXPECT_EQ(*next.Add(1, "n", 1, &lost), 1) << "as it was answered then";
  EXPECT_EQ(lost.revision, 1u);
  EXPECT_EQ(*next.Add(1, "n", 0), 2) << "not 3";
  KeyValueStore nobody;  // its node remembers nothing
  nobody.Begin(1, /*resumed=*/true);
  EXPECT_EQ(*nobody.Add(1, "n", 1, &lost), 1) << "then it must be made again";
}

TEST_F(KeyValueTest, EndOfTheGenerationAbortsWaitersAndDropsKeys) {
  Answer answer;
  store_.Get(1, {"a"}, true, Into(answer));
  ASSERT_TRUE(store_.Set(1, {{"b", "1"}}).ok());
  store_.End(7, "not this one");
  EXPECT_FALSE(answer.has_value());
  store_.End(1, "rank 1 was killed");
  EXPECT_EQ(answer->status(), absl::AbortedError("generation 1 is over: rank 1 was killed"));
  EXPECT_EQ(store_.Set(1, {{"a", "1"}}), absl::AbortedError("generation 1 is over: rank 1 was killed"));
  store_.Begin(2);
  EXPECT_EQ(*store_.Count(2), 0);
  EXPECT_EQ(store_.Count(1).status(), absl::AbortedError("generation 1 is not the current one, that is 2"));
  EXPECT_EQ(store_.Add(3, "a", 1).status().code(), absl::StatusCode::kUnavailable) << "not known yet: ask again";
}

TEST(KeyValue, BeforeTheFirstWorldEverythingIsRefused) {
  KeyValueStore store;
  EXPECT_EQ(store.Count(0).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store.Count(1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(KeyValueTest, EachChangeHasARevisionAndNoChangeHasNone) {
  KeyValueStore::Change change{.id = {}, .revision = 7, .unsettled = {}};
  ASSERT_TRUE(store_.Set(1, {{"a", "1"}, {"b", "2"}}, &change).ok());
  EXPECT_EQ(change.revision, 1u);
  ASSERT_TRUE(store_.Add(1, "n", 1, &change).ok());
  EXPECT_EQ(change.revision, 2u);
  ASSERT_TRUE(store_.CompareSet(1, "a", "other", "x", &change).ok());
  EXPECT_EQ(change.revision, 0u);
  EXPECT_FALSE(*store_.Delete(1, "absent", &change));
  EXPECT_EQ(change.revision, 0u);
  EXPECT_TRUE(*store_.Delete(1, "a", &change));
  EXPECT_EQ(change.revision, 3u);
}

TEST(KeyValue, RestoredKeysAreTheNewestThatAnybodyRemembers) {
  KeyValueStore store;
  store.Restore(5, {{"n", "3", 9}, {"k", "old", 2}, {"gone", "x", 4}});
  store.Restore(5, {{"n", "2", 7}, {"k", "new", 3}, {"gone", "", 8, /*deleted=*/true}});
  EXPECT_EQ(store.Count(5).status().code(), absl::StatusCode::kUnavailable) << "not all have told theirs";
  store.Begin(5, /*resumed=*/true);
  EXPECT_EQ(*store.Count(5), 2);
  EXPECT_EQ(*store.Add(5, "n", 1), 4);
  EXPECT_EQ(*store.CompareSet(5, "k", "new", "newer"), "newer");
  KeyValueStore::Change change;
  ASSERT_TRUE(store.Set(5, {{"z", ""}}, &change).ok());
  EXPECT_EQ(change.revision, 12u) << "revisions go on";
  store.Restore(5, {{"k", "late", 99}});
  EXPECT_TRUE(store.Check(5, {"k"})->absent.empty());
}

TEST(KeyValue, RestoreKeepsTheLimitsAndForgetsOtherGenerations) {
  KeyValueStore store({.max_key_bytes = 4, .max_value_bytes = 8, .max_keys = 2, .max_total_bytes = 20});
  store.Restore(4, {{"old", "1", 1}});
  store.Restore(5, {{"toolong", "1", 1}, {"a", "1", 2}, {"b", "123456789", 3}, {"c", "1", 4}, {"d", "1", 5}});
  store.Begin(5, /*resumed=*/true);
  EXPECT_EQ(*store.Count(5), 2);
  EXPECT_TRUE(store.Check(5, {"a", "c"})->absent.empty());
}

TEST(KeyValue, LimitsAreErrorsAndChangeNothing) {
  KeyValueStore store({.max_key_bytes = 4,
                       .max_value_bytes = 8,
                       .max_keys = 3,
                       .max_total_bytes = 20,
                       .max_answer_bytes = 10,
                       .max_waiters = 1});
  store.Begin(1);
  EXPECT_EQ(store.Set(1, {{"ok", "1"}, {"loong", "1"}}).message(), "key of 5 bytes, at most 4 are allowed");
  EXPECT_EQ(store.Set(1, {{"k", "123456789"}}).message(), "value of 9 bytes for key \"k\", at most 8 are allowed");
  EXPECT_EQ(store.CompareSet(1, "k", "", "123456789").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*store.Count(1), 0);
  EXPECT_EQ(store.Set(1, {{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(*store.Count(1), 0);
  ASSERT_TRUE(store.Set(1, {{"a", "12345678"}, {"b", "1234"}}).ok());
  EXPECT_EQ(store.Set(1, {{"c", "123456"}}).code(), absl::StatusCode::kResourceExhausted) << "20 bytes in all";
  Answer answer, waiting, refused;
  store.Get(1, {"a", "b"}, true, Into(answer));
  EXPECT_THAT(answer->status().message(), HasSubstr("ask for fewer keys"));
  store.Get(1, {"x"}, true, Into(waiting));
  store.Get(1, {"x"}, true, Into(refused));
  EXPECT_EQ(refused->status().code(), absl::StatusCode::kResourceExhausted);
  store.Close("test over");
  EXPECT_EQ(waiting->status().code(), absl::StatusCode::kAborted);
}

TEST(KeyValue, ThreadsMeet) {
  KeyValueStore store;
  store.Begin(1);
  constexpr int kThreads = 4, kRounds = 200;
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::string> keys;
        for (int i = 0; i < kThreads; ++i) keys.push_back(std::to_string(round) + "/" + std::to_string(i));
        store.Get(1, keys, true, [&](absl::StatusOr<KeyValueStore::Values> values) {
          answered += values.ok() && values->size() == kThreads;
        });
        EXPECT_TRUE(store.Set(1, {{keys[t], "x"}}).ok());
        EXPECT_TRUE(store.Add(1, "sum", 1).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kThreads * kRounds);
  EXPECT_EQ(*store.Add(1, "sum", 0), kThreads * kRounds);
}

}  // namespace
}  // namespace composer
