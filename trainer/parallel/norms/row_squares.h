// Sums of squares by row, of parameters and their gradients: rows are those of a whole parameter's first dimension, and
// ranks may hold parts of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainer/core/model_sharding.h"
#include "trainer/parallel/norms/exact_sum.h"

namespace composer {

// RowPieces are the rows, or parts of rows, of a parameter that this rank holds.
struct RowPieces {
  int64_t length;      // of a whole row
  int64_t begin, end;  // of the flattened parameter
  int64_t first() const { return begin / length; }
  int64_t count() const { return begin == end ? 0 : (end - 1) / length - first() + 1; }
  // Returns the elements of the i-th of them, as positions in the flattened parameter.
  std::pair<int64_t, int64_t> At(int64_t i) const {
    return {std::max(begin, (first() + i) * length), std::min(end, (first() + i + 1) * length)};
  }
  bool is_whole(int64_t i) const { return At(i).second - At(i).first == length; }
};

struct RowSquares {
  RowPieces rows;
  std::array<std::vector<ExactSum>, 2> squares;  // of the parameter and of the gradient, by row piece
};

// Returns the sums over what this rank holds of a parameter that has a gradient. One with fewer than two dimensions is
// one row. On the CPU sums are over runs that end at multiples of kFlatAlignment, and exact over runs.
RowSquares SquaresByRow(const at::Tensor& param, const ModelSharding* sharding);

// Makes the sums of cut rows those of whole rows; a collective. They are exact without tensor parallelism, and summed
// in double with it. The parameters, and their order, must be the same on all ranks.
void SumCutRows(const std::vector<at::Tensor>& params, std::vector<RowSquares>& squares, ModelSharding& sharding);

}  // namespace composer
