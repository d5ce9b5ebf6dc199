// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/exchange/rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/rank_threads.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(RankExchange, OneRankNeedsNoStore) {
  RankExchange alone;
  EXPECT_EQ(*alone.Broadcast("x"), "x");
  EXPECT_EQ(*alone.Gather("x"), std::vector<std::string>{"x"});
  EXPECT_EQ(alone.Gather(absl::DataLossError("bad")).status().code(), absl::StatusCode::kDataLoss);
}

TEST(RankExchange, EveryRankHearsRankZeroAndRankZeroHearsAllAndNoKeyIsLeft) {
  for (const int world : {1, 2, 5}) {
    const int64_t keys = RunRanks(world, [&](RankExchange exchange) {
      for (int round = 0; round < 20; ++round) {
        const std::string said = absl::StrCat("line one\nround ", round);
        EXPECT_EQ(*exchange.Broadcast(exchange.rank() == 0 ? said : "not this"), said);
        const auto gathered = exchange.Gather(absl::StrCat(round, " of ", exchange.rank()));
        std::vector<std::string> expected;
        for (int rank = 0; rank < world && exchange.rank() == 0; ++rank)
          expected.push_back(absl::StrCat(round, " of ", rank));
        EXPECT_EQ(*gathered, expected);
      }
      exchange.Gather("").IgnoreError();  // the others may be a Broadcast behind rank 0
    });
    EXPECT_EQ(keys, 0) << world;
  }
}

TEST(RankExchange, ErrorsTravelWithCodeAndMessage) {
  const int64_t keys = RunRanks(3, [](RankExchange exchange) {
    const auto heard = exchange.Broadcast(
        exchange.rank() == 0 ? absl::StatusOr<std::string>(absl::ResourceExhaustedError("disk\nfull")) : "");
    EXPECT_EQ(heard.status(), absl::ResourceExhaustedError("disk\nfull"));
    const auto gathered =
        exchange.Gather(exchange.rank() == 2 ? absl::StatusOr<std::string>(absl::DataLossError("torn")) : "fine");
    EXPECT_EQ(gathered.status(), exchange.rank() == 0 ? absl::DataLossError("rank 2: torn") : absl::OkStatus());
    const auto all_bad = exchange.Gather(absl::AbortedError("no"));
    EXPECT_EQ(all_bad.status(),
              exchange.rank() == 0 ? absl::AbortedError("rank 0: no (and 2 more ranks)") : absl::OkStatus());
  });
  EXPECT_EQ(keys, 0);
}

TEST(RankExchange, ARankThatNeverAnswersIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  RankExchange leader(store, 0, 2, absl::Milliseconds(50));
  const auto gathered = leader.Gather("x");
  EXPECT_EQ(gathered.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gathered.status().message()), HasSubstr("no answer from rank 1"));
  RankExchange other(store, 1, 2, absl::Milliseconds(50));
  EXPECT_THAT(std::string(other.Broadcast("").status().message()), HasSubstr("no answer from rank 0"));
}

}  // namespace
}  // namespace composer
