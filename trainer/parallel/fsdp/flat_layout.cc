// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/flat_layout.h"

#include <algorithm>

namespace composer {
namespace {

int64_t Aligned(int64_t elements) { return (elements + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment; }

int64_t NumElements(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  return numel;
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

}  // namespace composer
