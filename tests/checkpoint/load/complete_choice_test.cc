// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/complete_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/rank_threads.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string DataFileOf(ObjectStore& store, const std::string& checkpoint) {
  const std::vector<std::string> keys = *store.List(checkpoint);
  for (const std::string& key : keys) {
    if (absl::EndsWith(key, ".safetensors")) return key;
  }
  return "";
}

class CompleteChoice : public testing::Test {
 protected:
  void SetUp() override {
    for (const int64_t batch : {10, 20, 30}) ASSERT_TRUE(SaveOne(store_, batch).ok());
  }
  MemoryStore store_;
};

TEST_F(CompleteChoice, TheNewestIsTaken) {
  const auto choice = FindNewestComplete(store_);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->checkpoint, "ep0-ba30");
  EXPECT_THAT(choice->refused, IsEmpty());
}

TEST_F(CompleteChoice, OneWithoutAFileIsPassedOver) {
  const std::string file = DataFileOf(store_, "ep0-ba30");
  ASSERT_TRUE(store_.Delete(file).ok());
  const auto choice = FindNewestComplete(store_);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->checkpoint, "ep0-ba20");
  EXPECT_THAT(choice->refused, ElementsAre(HasSubstr(file)));
}

TEST_F(CompleteChoice, OneWithADamagedManifestIsPassedOver) {
  ASSERT_TRUE(store_.Put("ep0-ba30/manifest.json", {"{}"}).ok());
  const auto choice = FindNewestComplete(store_);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->checkpoint, "ep0-ba20");
}

TEST_F(CompleteChoice, WhatTheFilesHoldIsNotLookedAt) {
  ASSERT_TRUE(store_.Put(DataFileOf(store_, "ep0-ba30"), {"damaged"}).ok());
  EXPECT_EQ(FindNewestComplete(store_)->checkpoint, "ep0-ba30");
  StateDict target = MakeTarget();
  EXPECT_FALSE(LoadCheckpoint(store_, "ep0-ba30", &target).ok()) << "who loads it finds out";
}

TEST_F(CompleteChoice, NoneInAnEmptyStore) {
  MemoryStore empty;
  EXPECT_EQ(FindNewestComplete(empty)->checkpoint, "");
}

TEST_F(CompleteChoice, AllRanksGetRankZerosChoice) {
  const int64_t keys = RunRanks(3, [&](RankExchange exchange) {
    MemoryStore other;  // what the other ranks see does not count
    const auto choice = ChooseComplete(exchange.rank() == 0 ? static_cast<ObjectStore&>(store_) : other, exchange);
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->checkpoint, "ep0-ba30");
  });
  EXPECT_EQ(keys, 0);
}

TEST(AgreeOn, TheLowestRanksErrorIsEverybodys) {
  RunRanks(3, [](RankExchange exchange) {
    EXPECT_TRUE(AgreeOn(exchange, absl::OkStatus()).ok());
    const absl::Status own =
        exchange.rank() == 0 ? absl::OkStatus() : absl::DataLossError(absl::StrCat("damaged for ", exchange.rank()));
    const absl::Status agreed = AgreeOn(exchange, own);
    EXPECT_EQ(agreed.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(agreed.message()), HasSubstr("damaged for 1"));
  });
}

}  // namespace
}  // namespace composer
