// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/allocation_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace composer {
namespace {

// bytes > 0 allocates that many at the address; 0 frees it.
struct Did {
  uint64_t address;
  int64_t bytes;
  int device = -1;
  int stack = 0;
};

RecordedRun Recorded(int64_t rows, const std::vector<Did>& did, size_t first_event = 0) {
  RecordedRun run{.rows = rows, .history = {}, .first_event = first_event};
  for (const Did& each : did) {
    AllocationEvent event;
    event.kind = each.bytes > 0 ? AllocationEvent::Kind::kAlloc : AllocationEvent::Kind::kFree;
    event.address = each.address;
    event.bytes = each.bytes;
    event.device = each.device;
    event.stack = each.stack;
    run.history.events.push_back(event);
  }
  return run;
}

GrownPeak Peak(const RecordedRun& small, const RecordedRun& large, int64_t rows) {
  return PeakWithRows(small, large, rows, /*gpu=*/false);
}

// 100 bytes are kept; then 500 are allocated for a moment, or 10 per row.
std::vector<Did> Example(int64_t rows) { return {{1, 100}, {2, 500}, {2, 0}, {2, 10 * rows}, {3, 1}, {2, 0}}; }

TEST(AllocationGrowth, ThePeakMovesToWhatGrows) {
  const RecordedRun two = Recorded(2, Example(2)), four = Recorded(4, Example(4));
  EXPECT_EQ(Peak(two, four, 4).bytes, 600);
  EXPECT_EQ(Peak(two, four, 50).bytes, 601);
  EXPECT_EQ(Peak(two, four, 100).bytes, 100 + 1000 + 1);
  EXPECT_TRUE(Peak(two, four, 100).by_allocation);
}

TEST(AllocationGrowth, AddressesDoNotMatter) {
  const RecordedRun other = Recorded(4, {{7, 100}, {9, 500}, {9, 0}, {7 + 4, 40}, {5, 1}, {7 + 4, 0}});
  const GrownPeak peak = Peak(Recorded(2, Example(2)), other, 100);
  EXPECT_TRUE(peak.by_allocation);
  EXPECT_EQ(peak.bytes, 1101);
}

TEST(AllocationGrowth, OneRunIsItself) {
  const RecordedRun two = Recorded(2, Example(2));
  EXPECT_EQ(Peak(two, two, 2).bytes, 600);
}

TEST(AllocationGrowth, FromTheFirstEventOnWithWhatIsLiveThen) {
  EXPECT_EQ(Peak(Recorded(2, Example(2), 3), Recorded(4, Example(4), 3), 10).bytes, 100 + 100 + 1);
}

// Skipped are frees of memory older than the recording, and the other kind of memory.
TEST(AllocationGrowth, WhatIsPassedOver) {
  const RecordedRun run = Recorded(2, {{8, 0}, {1, 100}, {4, 1000, 0}, {1, 0}, {4, 0, 0}});
  EXPECT_EQ(PeakWithRows(run, run, 2, /*gpu=*/false).bytes, 100);
  EXPECT_EQ(PeakWithRows(run, run, 2, /*gpu=*/true).bytes, 1000);
  EXPECT_EQ(LiveAtEnd(run, /*gpu=*/false), 0);
  EXPECT_EQ(LiveAtEnd(Recorded(2, Example(2)), /*gpu=*/false), 101);
}

// Operation 1 allocates 8 and 30 for each sample; then a tensor is kept.
std::vector<Did> Loop(int64_t rows) {
  std::vector<Did> did = {{1, 100}};
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<Did> once = {{2, 8, -1, 1}, {3, 30, -1, 1}, {3, 0, -1, 1},
                                   {2, 0, -1, 1}, {4, 5, -1, 1},  {4, 0, -1, 1}};
    did.insert(did.end(), once.begin(), once.end());
  }
  did.push_back({5, 10 * rows, -1, 2});
  did.push_back({6, 7, -1, 2});
  did.push_back({6, 0, -1, 2});
  return did;
}

TEST(AllocationGrowth, LoopsOfAnOperationAreWhatTheyHaveAtOnce) {
  for (const int64_t rows : {2, 3, 4, 100}) {
    const GrownPeak peak = Peak(Recorded(2, Loop(2)), Recorded(4, Loop(4)), rows);
    EXPECT_TRUE(peak.by_allocation);
    EXPECT_EQ(peak.bytes, 100 + std::max<int64_t>(38, 10 * rows + 7)) << rows;
  }
}

TEST(AllocationGrowth, LoopsOverOperationsAreNotPassedOver) {
  const auto loop = [](int64_t rows) {
    std::vector<Did> did;
    for (int64_t i = 0; i < rows; ++i) {
      did.push_back({1, 10, -1, 1});
      did.push_back({2, 10, -1, 2});
      did.push_back({2, 0, -1, 2});
      did.push_back({1, 0, -1, 1});
    }
    return did;
  };
  EXPECT_FALSE(Peak(Recorded(2, loop(2)), Recorded(4, loop(4)), 8).by_allocation);
}

TEST(AllocationGrowth, RunsThatDifferGrowAsWholes) {
  const RecordedRun two = Recorded(2, {{1, 100}, {2, 20}}), four = Recorded(4, {{1, 100}, {3, 10}, {3, 0}, {2, 40}});
  const GrownPeak peak = Peak(two, four, 10);
  EXPECT_FALSE(peak.by_allocation);
  EXPECT_EQ(peak.bytes, 200);
}

TEST(AllocationGrowth, NothingShrinksBelowZero) {
  EXPECT_EQ(Peak(Recorded(2, {{1, 100}, {2, 30}}), Recorded(4, {{1, 100}, {2, 10}}), 50).bytes, 100);
}

}  // namespace
}  // namespace composer
