// FlatLayout says where the parameters of a unit lie in one flat buffer, and which part of it each rank holds. Pure.
//
// The buffer consists of `ranks` shards of shard_numel elements. Parameters follow each other in the given order, each
// beginning at a multiple of kFlatAlignment elements (at least 64 bytes, so that matrix kernels see aligned rows as
// they would without sharding). A parameter may lie in several shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace composer {

inline constexpr int64_t kFlatAlignment = 32;  // elements

struct FlatParam {
  std::string name;
  std::vector<int64_t> shape;
  int64_t numel = 0;   // set by MakeFlatLayout, like offset
  int64_t offset = 0;  // in the flat buffer
};

// Elements [begin, end) of a flattened parameter, which lie at shard_offset in a rank's shard.
struct FlatPiece {
  int64_t begin = 0, end = 0;
  int64_t shard_offset = 0;
  int64_t numel() const { return end - begin; }
};

struct FlatLayout {
  std::vector<FlatParam> params;
  int ranks = 1;
  int64_t shard_numel = 0;  // a multiple of kFlatAlignment

  int64_t numel() const { return shard_numel * ranks; }
  int64_t param_numel() const;  // without padding
  // Returns the piece of a parameter that a rank holds; numel() is 0 when it holds nothing.
  FlatPiece PieceOf(size_t param, int rank) const;
  // Returns the ranges [first, second) of the flat buffer that belong to no parameter.
  std::vector<std::pair<int64_t, int64_t>> Gaps() const;
};

// Requires ranks >= 1, and shapes with sizes >= 0 and fewer than 2^62 elements together.
FlatLayout MakeFlatLayout(std::vector<FlatParam> params, int ranks);

}  // namespace composer
