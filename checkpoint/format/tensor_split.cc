// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/tensor_split.h"

#include <algorithm>

namespace composer {

std::vector<TensorSplit::Part> TensorSplit::Parts() const {
  const int64_t run = shape[static_cast<size_t>(dim)] / groups, longer = run % ranks;
  const int64_t size = run / ranks + (rank < longer ? 1 : 0);
  const int64_t begin = rank * (run / ranks) + std::min<int64_t>(rank, longer);
  std::vector<Part> parts;
  for (int64_t i = 0; i < groups; ++i) parts.push_back({i * size, i * run + begin, size});
  return parts;
}

std::vector<int64_t> TensorSplit::LocalShape() const {
  std::vector<int64_t> local = shape;
  local[static_cast<size_t>(dim)] = groups * Parts()[0].size;
  return local;
}

std::vector<TensorSplit::Box> TensorSplit::ToWhole(const BoxExtent& box) const {
  const auto d = static_cast<size_t>(dim);
  std::vector<Box> boxes;
  for (const Part& part : Parts()) {
    const int64_t begin = std::max(box.offset[d], part.local);
    const int64_t end = std::min(box.offset[d] + box.shape[d], part.local + part.size);
    if (begin >= end) continue;
    Box cut{box, box.offset};
    cut.local.offset[d] = begin;
    cut.local.shape[d] = end - begin;
    cut.offset[d] = begin - part.local + part.whole;
    boxes.push_back(std::move(cut));
  }
  return boxes;
}

}  // namespace composer
