// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace composer {
namespace {

TEST(EpochPermutation, IsABijection) {
  for (int64_t size : {1,  2,   3,   4,   5,   7,   8,   9,    10,   15,   16,   17,    31,    33,    63,   64,
                       65, 100, 127, 128, 129, 255, 257, 1000, 1023, 1024, 1025, 60000, 65535, 65536, 65537}) {
    for (uint64_t seed : {0, 1, 17}) {
      const EpochPermutation order(size, seed, 3);
      std::vector<bool> seen(size, false);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t sample = order(i);
        ASSERT_TRUE(0 <= sample && sample < size) << size << " " << i;
        ASSERT_FALSE(seen[sample]) << size << ": " << sample << " twice";
        seen[sample] = true;
      }
    }
  }
}

TEST(EpochPermutation, IsAFunctionOfSizeSeedAndEpoch) {
  const auto first = [](uint64_t seed, int64_t epoch) {
    const EpochPermutation order(60000, seed, epoch);
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < 32; ++i) samples.push_back(order(i));
    return samples;
  };
  EXPECT_EQ(first(5, 2), first(5, 2));
  EXPECT_NE(first(5, 2), first(6, 2));
  EXPECT_NE(first(5, 2), first(5, 3));
  // These values are frozen: a change here breaks the exact resumption of every checkpoint in mid-epoch.
  const EpochPermutation order(10, 17, 0);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < 10; ++i) samples.push_back(order(i));
  EXPECT_EQ(samples, (std::vector<int64_t>{6, 1, 9, 8, 0, 3, 4, 2, 5, 7}));
}

// Tests mid-epoch access in a set that is far too large to iterate over.
TEST(EpochPermutation, ReachesAnyPositionAtOnce) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const EpochPermutation order(size, 1, 0);
  for (int64_t position : {int64_t{0}, size / 2, size - 1}) {
    EXPECT_GE(order(position), 0);
    EXPECT_LT(order(position), size);
  }
  EXPECT_NE(order(size / 2), order(size / 2 + 1));
}

// Over many epochs every sample must appear about equally often at every position (chi-squared, 5 sigma), and
// neighbours must not stay neighbours.
TEST(EpochPermutation, LooksRandom) {
  for (int64_t size : {2, 3, 8, 10, 16, 23}) {
    constexpr int kEpochs = 20000;
    std::vector<int> count(size * size, 0);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const EpochPermutation order(size, 42, epoch);
      for (int64_t i = 0; i < size; ++i) ++count[i * size + order(i)];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    double chi = 0;
    for (int c : count) chi += (c - expected) * (c - expected) / expected;
    const double freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom) + 10) << "size " << size;
  }
  const EpochPermutation order(60000, 1, 0);
  int neighbours = 0, fixed = 0;
  for (int64_t i = 0; i + 1 < 60000; ++i) {
    neighbours += std::abs(order(i + 1) - order(i)) == 1;
    fixed += order(i) == i;
  }
  EXPECT_LT(neighbours, 15);  // 2 are expected
  EXPECT_LT(fixed, 10);       // 1 is expected
}

// The mean distance that a sample moves in a random order of n is n/3.
TEST(EpochPermutation, MovesSamplesFar) {
  constexpr int64_t kSize = 60000;
  const EpochPermutation order(kSize, 9, 4);
  double moved = 0;
  for (int64_t i = 0; i < kSize; ++i) moved += std::abs(static_cast<double>(order(i) - i)) / kSize;
  EXPECT_NEAR(moved / kSize, 1.0 / 3, 0.005);
}

TEST(BatchesPerEpoch, CountsAShortLastBatchUnlessItIsDropped) {
  EXPECT_EQ(BatchesPerEpoch(10, 4, false), 3);
  EXPECT_EQ(BatchesPerEpoch(10, 4, true), 2);
  EXPECT_EQ(BatchesPerEpoch(8, 4, false), 2);
  EXPECT_EQ(BatchesPerEpoch(3, 4, false), 1);
  EXPECT_EQ(BatchesPerEpoch(3, 4, true), 0);
}

TEST(RankShare, SharesJoinToTheWholeForAnyWorld) {
  for (int64_t count : {0, 1, 2, 3, 7, 16, 100}) {
    for (int world : {1, 2, 3, 5, 8, 64}) {
      int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const SampleRange share = RankShare(count, rank, world);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.size(), count / world);
        EXPECT_LE(share.size(), (count + world - 1) / world);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace composer
