// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/checkpoint_name.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(CheckpointName, TextAndBack) {
  const CheckpointName name{3, 120};
  EXPECT_EQ(name.ToString(), "ep3-ba120");
  EXPECT_EQ(CheckpointName::Parse("ep3-ba120"), name);
  for (const char* bad : {"", "ep3", "ep3-ba", "ep-ba1", "ep03-ba1", "ep3-ba1 ", "ep3-ba+1", "ep-1-ba1", "ep3-ba1x",
                          "Ep3-ba1", "latest", "ep3-ba99999999999999999999"}) {
    EXPECT_FALSE(CheckpointName::Parse(bad).has_value()) << bad;
  }
}

TEST(CheckpointName, OrderIsByBatchThenEpoch) {
  EXPECT_LT((CheckpointName{0, 9}), (CheckpointName{0, 10}));
  EXPECT_LT((CheckpointName{0, 10}), (CheckpointName{1, 10}));
  EXPECT_LT((CheckpointName{5, 9}), (CheckpointName{1, 10}));
}

TEST(CheckpointName, NamesOfFilesAndAttemptsAreExact) {
  EXPECT_EQ(RankFileName(7), "rank-00007.safetensors");
  for (const char* good : {"rank-00000.safetensors", "rank-99999.safetensors", "rank-100000.safetensors"})
    EXPECT_TRUE(IsRankFileName(good));
  for (const char* bad : {"", "rank-", "rank-0.safetensors", "rank-00000", "rank-00000.safetensors/..",
                          "../rank-00000.safetensors", "rank--0001.safetensors", "rank-000001.safetensors"}) {
    EXPECT_FALSE(IsRankFileName(bad)) << bad;
  }
  EXPECT_TRUE(IsAttemptName("attempt-0123456789abcdef"));
  for (const char* bad :
       {"", "attempt-", "attempt-0123456789ABCDEF", "attempt-../../../../etc", "attempt-0123456789abcdef0"}) {
    EXPECT_FALSE(IsAttemptName(bad)) << bad;
  }
}

}  // namespace
}  // namespace composer
