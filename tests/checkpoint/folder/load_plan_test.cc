// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/load_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using Numbers = std::vector<int64_t>;

// Returns chunks at the given places of file 0, each 100 bytes, of one box and one loopless copy unless stated
// otherwise.
LoadPlan Chunks(const std::vector<int64_t>& begins) {
  LoadPlan plan;
  plan.copies.push_back({{0, 0, 1 << 20, {}}, 0});
  for (const int64_t begin : begins) plan.chunks.push_back({0, 0, begin, begin + 100, begin, 0, 0, 1});
  return plan;
}

TEST(RunsOf, NeighboursAreReadAtOnceWithSmallGaps) {
  const RunLimits limits{.buffer_bytes = 500, .gap_bytes = 50, .direct_bytes = 500, .direct_least = 1 << 21};
  using Runs = std::vector<ChunkRun>;
  EXPECT_EQ(RunsOf(Chunks({}), limits), Runs{});
  EXPECT_EQ(RunsOf(Chunks({0, 100, 200}), limits), (Runs{{0, 3, false}}));
  EXPECT_EQ(RunsOf(Chunks({0, 150}), limits), (Runs{{0, 2, false}}));
  EXPECT_EQ(RunsOf(Chunks({0, 151}), limits), (Runs{{0, 1, false}, {1, 2, false}}));
  EXPECT_EQ(RunsOf(Chunks({0, 100, 200, 300, 400, 500}), limits), (Runs{{0, 5, false}, {5, 6, false}}));
  EXPECT_EQ(RunsOf(Chunks({0, 50, 150}), limits), (Runs{{0, 1, false}, {1, 3, false}}));  // they overlap, so no run
  LoadPlan other_file = Chunks({0, 100});
  other_file.chunks[1].file = 1;
  EXPECT_EQ(RunsOf(other_file, limits), (Runs{{0, 1, false}, {1, 2, false}}));
}

TEST(RunsOf, LargePiecesGoStraightToTheirPlace) {
  const RunLimits limits{.buffer_bytes = 500, .gap_bytes = 50, .direct_bytes = 300, .direct_least = 1 << 20};
  using Runs = std::vector<ChunkRun>;
  EXPECT_EQ(RunsOf(Chunks({0, 100, 200, 300}), limits), (Runs{{0, 3, true}, {3, 4, true}}));
  EXPECT_EQ(RunsOf(Chunks({0, 101}), limits), (Runs{{0, 1, true}, {1, 2, true}}));  // never a gap
  LoadPlan partly = Chunks({0, 100});
  partly.copies[0].bytes.source_begin = 50;
  EXPECT_EQ(RunsOf(partly, limits), (Runs{{0, 1, false}, {1, 2, true}}));
  LoadPlan strided = Chunks({0});
  strided.copies[0].bytes.loops = {{2, 10, 20}};
  EXPECT_EQ(RunsOf(strided, limits), (Runs{{0, 1, false}}));
  LoadPlan twice = Chunks({0});
  twice.copies.push_back(twice.copies[0]);
  twice.chunks[0].end_copy = 2;
  EXPECT_EQ(RunsOf(twice, limits), (Runs{{0, 1, false}}));
  LoadPlan two_boxes = Chunks({0, 100});
  two_boxes.copies.push_back(two_boxes.copies[0]);
  two_boxes.chunks[1].first_copy = 1;
  two_boxes.chunks[1].end_copy = 2;
  EXPECT_EQ(RunsOf(two_boxes, limits), (Runs{{0, 1, true}, {1, 2, true}}));
}

// A tensor of 1 MiB rows in two boxes: a load of a part gets the chunks that contain bytes of it.
TEST(PlanLoad, OnlyChunksWithWantedBytes) {
  constexpr int64_t kRow = kChunkBytes;
  Manifest manifest;
  manifest.tensors = {{"other", "U8", {1}, {{{0}, {1}, 1, 8, 9, {7}}}},
                      {"t",
                       "U8",
                       {6, kRow},
                       {{{3, 0}, {3, kRow}, 1, 100, 100 + 3 * kRow, {4, 5, 6}},
                        {{0, 0}, {3, kRow}, 0, 200, 200 + 3 * kRow, {1, 2, 3}}}}};
  const auto checksums = [&](const Numbers& offset, const Numbers& shape) {
    const Numbers strides = {shape[1], 1};
    Numbers found;
    for (const ChunkRead& chunk : PlanLoad(manifest, {{1, {offset, shape}, strides, 1}}).chunks)
      found.push_back(static_cast<int64_t>(chunk.xxh3));
    return found;
  };
  EXPECT_EQ(checksums({0, 0}, {6, kRow}), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(checksums({2, 0}, {2, kRow}), (Numbers{3, 4}));
  EXPECT_EQ(checksums({0, 5}, {6, 1}), (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(checksums({4, 5}, {1, 1}), (Numbers{5}));
  EXPECT_EQ(PlanVerify(manifest).chunks.size(), 7u);
  EXPECT_EQ(PlanLoad(manifest, {}).chunks.size(), 0u);
}

}  // namespace
}  // namespace composer
