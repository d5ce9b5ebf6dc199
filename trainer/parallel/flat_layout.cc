// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/flat_layout.h"

#include <algorithm>

namespace composer {
namespace {

int64_t Aligned(int64_t elements) { return (elements + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment; }

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
}

// The range within the sub-tensor at `prefix`, whose dimensions are shape[prefix.size()] and so on.
void AppendBoxes(absl::Span<const int64_t> shape, std::vector<int64_t> prefix, int64_t base, int64_t begin, int64_t end,
                 std::vector<FlatBox>& boxes) {
  if (begin >= end) return;
  const size_t dim = prefix.size();
  const auto append = [&](int64_t first, int64_t count, int64_t row) {
    FlatBox box{prefix, std::vector<int64_t>(dim, 1), base + first * row};
    box.offset.push_back(first);
    box.shape.push_back(count);
    for (size_t i = dim + 1; i < shape.size(); ++i) {
      box.offset.push_back(0);
      box.shape.push_back(shape[i]);
    }
    boxes.push_back(std::move(box));
  };
  const int64_t row = NumElements(shape.subspan(dim + 1));
  if (row == 1) {  // also when only dimensions of size 1 follow
    append(begin, end - begin, 1);
    return;
  }
  const auto below = [&](int64_t index, int64_t from, int64_t to) {
    std::vector<int64_t> inner = prefix;
    inner.push_back(index);
    AppendBoxes(shape, std::move(inner), base + index * row, from, to, boxes);
  };
  int64_t first = begin / row;
  const int64_t last = end / row;
  if (begin % row != 0) {
    below(first, begin % row, std::min(row, end - first * row));
    ++first;
  }
  if (first < last) append(first, last - first, row);
  if (last >= first && end % row != 0) below(last, 0, end % row);
}

}  // namespace

FlatLayout MakeFlatLayout(std::vector<FlatParam> params, int ranks) {
  FlatLayout layout;
  layout.ranks = ranks;
  int64_t offset = 0;
  for (FlatParam& param : params) {
    param.numel = NumElements(param.shape);
    param.offset = offset;
    offset += Aligned(param.numel);
  }
  layout.params = std::move(params);
  layout.shard_numel = Aligned((offset + ranks - 1) / ranks);
  return layout;
}

int64_t FlatLayout::param_numel() const {
  int64_t sum = 0;
  for (const FlatParam& param : params) sum += param.numel;
  return sum;
}

FlatPiece FlatLayout::PieceOf(size_t param, int rank) const {
  const FlatParam& whole = params[param];
  const int64_t shard_begin = rank * shard_numel, shard_end = shard_begin + shard_numel;
  const int64_t begin = std::max(whole.offset, shard_begin), end = std::min(whole.offset + whole.numel, shard_end);
  if (begin >= end) return {};
  return {begin - whole.offset, end - whole.offset, begin - shard_begin};
}

std::vector<std::pair<int64_t, int64_t>> FlatLayout::Gaps() const {
  std::vector<std::pair<int64_t, int64_t>> gaps;
  int64_t end = 0;
  for (const FlatParam& param : params) {
    if (param.offset > end) gaps.emplace_back(end, param.offset);
    end = param.offset + param.numel;
  }
  if (numel() > end) gaps.emplace_back(end, numel());
  return gaps;
}

std::vector<FlatBox> FlatRangeBoxes(absl::Span<const int64_t> shape, int64_t begin, int64_t end) {
  std::vector<FlatBox> boxes;
  if (begin >= end) return boxes;
  if (shape.empty()) {
    boxes.push_back(FlatBox{});
  } else {
    AppendBoxes(shape, {}, 0, begin, end, boxes);
  }
  return boxes;
}

}  // namespace composer
