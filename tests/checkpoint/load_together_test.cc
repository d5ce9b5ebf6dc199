// Ranks that load and verify a checkpoint together read each byte once, and fail together.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/verify.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/sharded_states.h"
#include "tests/checkpoint/thread_exchange.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(LoadTogether, EachByteOfWholeTensorsIsReadOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kFlat, 3, 1);
  CountingStore counted(store);
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 4));
    const absl::Status status = LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
  EXPECT_EQ(counted.manifest_bytes, *store.Size("ep0-ba1/manifest.json"));
}

// With HYBRID_SHARD, ranks 0 and 2 hold the first half, ranks 1 and 3 the second.
TEST(LoadTogether, AShardOfSeveralReplicasIsReadOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kRows, 2, 1);
  CountingStore counted(store);
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kRows, exchange.rank() % 2, 2));
    const absl::Status status = LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
  counted.fail_at = counted.reads + 3;  // fails in one group; the other's load is not reported as a success either
  RunExchange(4, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kRows, exchange.rank() % 2, 2));
    EXPECT_FALSE(LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange).ok());
  });
}

TEST(LoadTogether, RanksWithShardsOfTheirOwnReadThoseAndRanksWithoutReadNothing) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kRows, 2, 1);
  CountingStore counted(store);
  RunExchange(5, [&](ByteExchange& exchange) {  // ranks 0 and 1 have all of it, the others have nothing
    StateDict state = Blank(Share(values, Layout::kRows, std::min(exchange.rank(), 2), 2));
    EXPECT_TRUE(LoadCheckpoint(counted, "ep0-ba1", &state, {}, &exchange).ok());
    EXPECT_EQ(ShareDifference(values, state), "");
  });
  EXPECT_EQ(counted.data_bytes, 1200 * 1000 * 4 + 8000);
}

TEST(LoadTogether, WhatOneRankCannotReadFailsOnAll) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kFlat, 3, 1);
  for (int64_t failing = 1; failing <= 4; ++failing) {  // the manifest, then the data
    CountingStore faulty(store);
    faulty.fail_at = failing;
    RunExchange(3, [&](ByteExchange& exchange) {
      StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
      const absl::Status status = LoadCheckpoint(faulty, "ep0-ba1", &state, {}, &exchange);
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << failing;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the line is down"));
    });
  }
}

TEST(LoadTogether, RanksThatWantOtherTensorsAreToldInsteadOfWaiting) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kWhole, 1, 1);
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    if (exchange.rank() == 1) state.tensors.pop_back();
    const LoadSelection lenient{.allow_missing = true, .allow_unexpected = true};
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, lenient, &exchange);
    EXPECT_THAT(std::string(status.message()), HasSubstr(exchange.rank() == 1 ? "wants other" : "another rank"));
  });
}

TEST(LoadTogether, DamageIsFoundOnAllAndAMisfitOnOneFailsOnAll) {
  const auto values = LargeValues();
  MemoryStore store;
  SaveShares(store, values, Layout::kWhole, 1, 1);
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    if (exchange.rank() == 1) state.tensors[0].second = torch::zeros({7});
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, {}, &exchange);
    EXPECT_THAT(std::string(status.message()), HasSubstr(exchange.rank() == 1 ? "F32[7] here" : "another rank"));
  });
  const std::string key = store.List("ep0-ba1")->at(0);
  std::string content = *GetObject(store, key, 1 << 24);
  content[content.size() - 5] = static_cast<char>(content[content.size() - 5] ^ 1);
  ASSERT_TRUE(store.Put(key, {content}).ok());
  RunExchange(3, [&](ByteExchange& exchange) {
    StateDict state = Blank(Share(values, Layout::kWhole, exchange.rank(), 3));
    const absl::Status status = LoadCheckpoint(store, "ep0-ba1", &state, {}, &exchange);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum mismatch of tensor w"));
  });
}

TEST(ChooseCheckpoint, TheRanksVerifyTogetherAndReadEachByteOnce) {
  const auto values = LargeValues();
  MemoryStore store;
  for (int64_t batch : {1, 2}) SaveShares(store, values, Layout::kFlat, 3, batch);
  CountingStore counted(store);
  const auto choose = [&](const std::string& expected, size_t refused) {
    RunRanks(4, [&](RankExchange exchange) {
      const auto choice = ChooseCheckpoint(counted, exchange);
      ASSERT_TRUE(choice.ok()) << choice.status();
      EXPECT_EQ(choice->checkpoint, expected);
      EXPECT_EQ(choice->refused.size(), refused);
    });
  };
  choose("ep0-ba2", 0);
  EXPECT_LE(counted.data_bytes, 1200 * 1000 * 4 + 8000 + 3 * 2000);                  // plus the headers
  for (const std::string& key : std::vector<std::string>(*store.List("ep0-ba2"))) {  // whichever rank's share it is
    const std::string content = *GetObject(store, key, 1 << 24);
    for (const size_t place : {content.size() - 1, content.size() / 2, size_t{30}}) {
      std::string flipped = content;
      flipped[place] = static_cast<char>(flipped[place] ^ 4);
      ASSERT_TRUE(store.Put(key, {flipped}).ok());
      choose("ep0-ba1", 1);
    }
    ASSERT_TRUE(store.Put(key, {content}).ok());
  }
}

TEST(DecideSharing, Reasons) {
  EXPECT_FALSE(DecideSharing({.world_size = 1, .hosts = 1, .remote_store = true}).share);
  EXPECT_FALSE(DecideSharing({.world_size = 8, .hosts = 1}).share);
  EXPECT_THAT(DecideSharing({.world_size = 8, .hosts = 1}).reason, HasSubstr("page cache"));
  EXPECT_TRUE(DecideSharing({.world_size = 8, .hosts = 2}).share);
  EXPECT_TRUE(DecideSharing({.world_size = 8, .hosts = 1, .remote_store = true}).share);
}

TEST(AgreeOnSharing, AllRanksAreToldTheSame) {
  for (const bool remote : {false, true}) {
    const int64_t keys = RunRanks(3, [&](RankExchange exchange) {
      const auto decision = AgreeOnSharing(exchange, remote);
      ASSERT_TRUE(decision.ok()) << decision.status();
      EXPECT_EQ(decision->share, remote);
      EXPECT_THAT(decision->reason, HasSubstr(remote ? "3 times" : "one host"));
    });
    EXPECT_EQ(keys, 0);
  }
  RankExchange alone;
  EXPECT_FALSE(AgreeOnSharing(alone, true)->share);
}

}  // namespace
}  // namespace composer
