// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/tensor_split.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

using Part = TensorSplit::Part;
using Box = TensorSplit::Box;

// Rows of q, k and v: 6 each, over 2 ranks.
const TensorSplit kRows{{18, 5}, 0, 3, 2, 1};

TEST(TensorSplit, EachGroupIsSplit) {
  EXPECT_EQ(kRows.Parts(), (std::vector<Part>{{0, 3, 3}, {3, 9, 3}, {6, 15, 3}}));
  EXPECT_EQ(kRows.LocalShape(), (std::vector<int64_t>{9, 5}));
  const TensorSplit columns{{4, 12}, 1, 1, 3, 2};
  EXPECT_EQ(columns.Parts(), (std::vector<Part>{{0, 8, 4}}));
  EXPECT_EQ(columns.LocalShape(), (std::vector<int64_t>{4, 4}));
}

TEST(TensorSplit, TheFirstRanksHaveWhatDoesNotDivide) {
  TensorSplit split{{11, 5}, 0, 1, 4, 0};
  EXPECT_EQ(split.Parts(), (std::vector<Part>{{0, 0, 3}}));
  split.rank = 3;
  EXPECT_EQ(split.Parts(), (std::vector<Part>{{0, 9, 2}}));
  EXPECT_EQ(split.LocalShape(), (std::vector<int64_t>{2, 5}));
}

TEST(TensorSplit, ABoxIsCutWhereTheGroupsAre) {
  const BoxExtent box{{2, 1}, {5, 3}};  // rows 2 to 6: the last of q, all of k, the first of v
  EXPECT_EQ(kRows.ToWhole(box),
            (std::vector<Box>{{{{2, 1}, {1, 3}}, {5, 1}}, {{{3, 1}, {3, 3}}, {9, 1}}, {{{6, 1}, {1, 3}}, {15, 1}}}));
  EXPECT_TRUE(kRows.ToWhole({{2, 1}, {0, 3}}).empty());
}

// The boxes of all ranks form the whole, with each element once.
TEST(TensorSplit, RanksFillTheWhole) {
  for (const int64_t rows : {12, 14, 16, 2}) {
    TensorSplit split{{rows, 4}, 0, 2, 3, 0};
    std::vector<int> count(static_cast<size_t>(rows * 4));
    for (split.rank = 0; split.rank < split.ranks; ++split.rank) {
      for (const Box& box : split.ToWhole({{0, 0}, split.LocalShape()})) {
        for (int64_t row = 0; row < box.local.shape[0]; ++row) {
          for (int64_t column = 0; column < box.local.shape[1]; ++column)
            ++count[static_cast<size_t>((box.offset[0] + row) * 4 + box.offset[1] + column)];
        }
      }
    }
    for (const int times : count) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace composer
