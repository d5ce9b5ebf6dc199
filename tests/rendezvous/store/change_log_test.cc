// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/change_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the result of Find: "new", "revision 3", or the code of its error.
std::string Find(ChangeLog& log, const ChangeId& id) {
  const auto made = log.Find(id);
  if (!made.ok()) return absl::StatusCodeToString(made.status().code());
  return *made == nullptr ? "new" : absl::StrCat("revision ", (*made)->revision);
}

TEST(ChangeLogTest, AChangeIsMadeOnceUntilItIsSettled) {
  struct Case {
    ChangeId id;
    std::string found;
  };
  ChangeLog log(100);
  log.Add({"a", 1, 0}, {"k"}, 5, 0);
  log.Add({"a", 3, 0}, {"k"}, 6, 0);
  const Case cases[] = {
      {{"", 0, 0}, "new"},                // never sent again
      {{"", 1, 0}, "new"},                // the same
      {{"a", 1, 0}, "revision 5"},        // sent again
      {{"a", 2, 0}, "new"},               // overtaken by number 3
      {{"a", 3, 0}, "revision 6"},        //
      {{"b", 1, 0}, "new"},               // from another sender
      {{"a", 0, 0}, "INVALID_ARGUMENT"},  //
      {{"a", 4, 1}, "new"},               // number 1 has been answered
      {{"a", 1, 0}, "ABORTED"},           // and arrives late
      {{"a", 3, 1}, "revision 6"},        //
      {{"a", 3, 9}, "revision 6"},        // no sender settles its own change
      {{"a", 2, 0}, "ABORTED"},           // number 3 said that 2 is settled
      {{std::string(129, 'a'), 1, 0}, "INVALID_ARGUMENT"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Find(log, c.id), c.found) << c.id.sender << " " << c.id.number << ", settled " << c.id.settled;
  }
}

TEST(ChangeLogTest, UnsettledChangesOfAKeyOldestFirst) {
  ChangeLog log(1000);
  log.Add({"a", 1, 0}, {"x", "y"}, 1, 0);
  log.Add({"b", 1, 0}, {"y"}, 2, 7);
  EXPECT_THAT(log.Unsettled("y"), ElementsAre(MadeChange{"a", 1, 1, 0}, MadeChange{"b", 1, 2, 7}));
  EXPECT_EQ(Find(log, {"a", 2, 1}), "new");
  EXPECT_THAT(log.Unsettled("y"), ElementsAre(MadeChange{"b", 1, 2, 7}));
  EXPECT_THAT(log.Unsettled("x"), IsEmpty());
  for (uint64_t i = 0; i < ChangeLog::kMaxUnsettledOfAKey; ++i) log.Add({absl::StrCat("c", i), 1, 0}, {"y"}, 3 + i, 0);
  EXPECT_EQ(log.Unsettled("y").size(), ChangeLog::kMaxUnsettledOfAKey);
  EXPECT_EQ(log.Unsettled("y")[0].sender, "c0") << "the newest";
  EXPECT_EQ(Find(log, {"b", 1, 0}), "revision 2") << "left out of answers, not forgotten";
}

TEST(ChangeLogTest, ItsMemoryIsBounded) {
  ChangeLog log(30);
  for (uint64_t number = 1; number <= 1000; ++number) {  // a sender whose answers arrive
    ASSERT_EQ(Find(log, {"a", number, number - 1}), "new");
    log.Add({"a", number, number - 1}, {absl::StrCat("key ", number)}, number, 0);
  }
  uint64_t number = 1;
  for (; Find(log, {"b", number, 0}) == "new" && number < 1000; ++number) log.Add({"b", number, 0}, {"k"}, number, 0);
  EXPECT_LT(number, 30u);
  EXPECT_EQ(Find(log, {"b", number, 0}), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(Find(log, {"b", 1, 0}), "revision 1") << "what is there is still found";
  EXPECT_EQ(Find(log, {"b", number, number - 1}), "new") << "answers have arrived";
  log.Clear();
  EXPECT_EQ(Find(log, {"b", 1, 0}), "new");
}

TEST(ChangeLogTest, WhatLaunchersRememberIsKnownAgain) {
  ChangeLog log(6);
  log.Restore("k", {{"a", 4, 9, 12}, {"", 1, 1, 0}, {"a", 0, 1, 0}, {std::string(200, 'x'), 1, 1, 0}});
  log.Restore("l", {{"a", 4, 9, 12}});
  EXPECT_EQ(Find(log, {"a", 4, 2}), "revision 9");
  EXPECT_EQ(Find(log, {"a", 3, 2}), "new");
  EXPECT_THAT(log.Unsettled("l"), ElementsAre(MadeChange{"a", 4, 9, 12}));
  for (uint64_t i = 0; i < 100; ++i) log.Restore("k", {{absl::StrCat("b", i), 1, 1, 0}});
  EXPECT_THAT(Find(log, {"c", 1, 0}), HasSubstr("EXHAUSTED")) << "what does not fit is left out";
}

}  // namespace
}  // namespace composer
