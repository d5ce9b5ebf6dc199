// The requirements on every ObjectStore. Include this in one test file and instantiate it with a factory for each
// implementation:
//   INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreSuite,
//                            testing::Values([] { return std::make_shared<MemoryStore>(); }));
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/object_store.h"

namespace composer {

using ObjectStoreFactory = std::function<std::shared_ptr<ObjectStore>()>;

class ObjectStoreSuite : public testing::TestWithParam<ObjectStoreFactory> {
 protected:
  ObjectStoreSuite() : store_(GetParam()()) {}
  std::string Content(const std::string& key) { return GetObject(*store_, key, 1 << 20).value_or("<error>"); }
  std::vector<std::string> Keys(const std::string& folder) { return store_->List(folder).value(); }

  std::shared_ptr<ObjectStore> store_;
};

TEST_P(ObjectStoreSuite, PutThenReadWholeAndInPart) {
  ASSERT_TRUE(store_->Put("a/b.bin", {"01", "", "23456", "789"}).ok());
  EXPECT_EQ(Content("a/b.bin"), "0123456789");
  EXPECT_EQ(*store_->Size("a/b.bin"), 10);
  char bytes[4];
  ASSERT_TRUE(store_->Read("a/b.bin", 5, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(std::string(bytes, 4), "5678");
}

TEST_P(ObjectStoreSuite, PutReplaces) {
  ASSERT_TRUE(store_->Put("a", {"a longer first content"}).ok());
  ASSERT_TRUE(store_->Put("a", {"second"}).ok());
  EXPECT_EQ(Content("a"), "second");
  EXPECT_THAT(Keys(""), testing::ElementsAre("a"));
}

TEST_P(ObjectStoreSuite, EmptyObjectsExist) {
  ASSERT_TRUE(store_->Put("empty", {}).ok());
  EXPECT_EQ(*store_->Size("empty"), 0);
  EXPECT_EQ(Content("empty"), "");
}

TEST_P(ObjectStoreSuite, LargePiecesAndManySmallOnesKeepTheirOrder) {
  const std::string large(3 << 20, 'L');
  const std::vector<std::string> small(1000, "abc");
  std::vector<absl::string_view> pieces(small.begin(), small.end());
  pieces.push_back(large);
  pieces.push_back("end");
  ASSERT_TRUE(store_->Put("k", pieces).ok());
  const std::string content = GetObject(*store_, "k", 1 << 30).value();
  ASSERT_EQ(content.size(), 3000 + large.size() + 3);
  EXPECT_EQ(content.substr(2997, 5), "abcLL");
  EXPECT_EQ(content.substr(content.size() - 5), "LLend");
}

TEST_P(ObjectStoreSuite, PutIfAbsentNeverReplaces) {
  ASSERT_TRUE(store_->PutIfAbsent("a/k", {"first"}).ok());
  EXPECT_EQ(store_->PutIfAbsent("a/k", {"second"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content("a/k"), "first");
  EXPECT_THAT(Keys(""), testing::ElementsAre("a/k"));
}

TEST_P(ObjectStoreSuite, OfManyWritersExactlyOneCreates) {
  std::atomic<int> winners{0};
  std::atomic<int> winner{-1};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (store_->PutIfAbsent("k", {absl::StrCat(i)}).ok()) {
        ++winners;
        winner = i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(Content("k"), absl::StrCat(winner.load()));
}

TEST_P(ObjectStoreSuite, ReadingPastTheEndIsOutOfRange) {
  ASSERT_TRUE(store_->Put("k", {"0123"}).ok());
  char bytes[4];
  EXPECT_EQ(store_->Read("k", 1, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read("k", 100, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(store_->Read("k", 0, absl::MakeSpan(bytes)).ok());
}

TEST_P(ObjectStoreSuite, MissingObjects) {
  char byte[1];
  EXPECT_EQ(store_->Size("no/such").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Read("no/such", 0, absl::MakeSpan(byte)).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_->Delete("no/such").ok());
  EXPECT_TRUE(store_->DeleteTree("no").ok());
  EXPECT_TRUE(Keys("no").empty());
}

TEST_P(ObjectStoreSuite, TooLargeForTheCallerIsRefused) {
  ASSERT_TRUE(store_->Put("k", {"0123"}).ok());
  EXPECT_EQ(GetObject(*store_, "k", 3).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(ObjectStoreSuite, ListIsSortedAndOfOneFolder) {
  for (const char* key : {"b", "a/2", "a/1", "a/c/3", "ab/4", "a-/5"}) ASSERT_TRUE(store_->Put(key, {"x"}).ok());
  EXPECT_THAT(Keys(""), testing::ElementsAre("a-/5", "a/1", "a/2", "a/c/3", "ab/4", "b"));
  EXPECT_THAT(Keys("a"), testing::ElementsAre("a/1", "a/2", "a/c/3"));
  EXPECT_THAT(Keys("a/c"), testing::ElementsAre("a/c/3"));
}

TEST_P(ObjectStoreSuite, DeleteTakesOneObjectAndDeleteTreeAFolder) {
  for (const char* key : {"a/1", "a/2", "a/c/3", "ab/4"}) ASSERT_TRUE(store_->Put(key, {"x"}).ok());
  ASSERT_TRUE(store_->Delete("a/1").ok());
  EXPECT_THAT(Keys(""), testing::ElementsAre("a/2", "a/c/3", "ab/4"));
  ASSERT_TRUE(store_->DeleteTree("a").ok());
  EXPECT_THAT(Keys(""), testing::ElementsAre("ab/4"));
}

TEST_P(ObjectStoreSuite, HostileKeysAreRefused) {
  for (const std::string key :
       {"", "/a", "a/", "a//b", "..", "a/../b", ".", "a/./b", ".hidden", "a/.put-1", "a b", "a\nb", "\xff"}) {
    EXPECT_EQ(store_->Put(key, {"x"}).code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->PutIfAbsent(key, {"x"}).code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_EQ(store_->Size(key).status().code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_FALSE(store_->DeleteTree(key).ok()) << key;
  }
  EXPECT_FALSE(store_->Delete("../x").ok());
  EXPECT_EQ(store_->Put(std::string(1025, 'a'), {"x"}).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ObjectStoreSuite, LocationNamesTheKey) {
  EXPECT_THAT(store_->Location("a/b.bin"), testing::EndsWith("/a/b.bin"));
}

}  // namespace composer
