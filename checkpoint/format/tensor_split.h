// TensorSplit says how the tensor that a rank holds is part of a larger one: tensor parallelism, with one dimension cut
// among ranks. Pure.
//
// The dimension consists of `groups` equal runs, each cut into `ranks` pieces; rank r has the r-th of each run, in
// order:
//   groups 3, ranks 2 (rows of q, k and v):   whole  q0 q1 k0 k1 v0 v1      rank 0  q0 k0 v0      rank 1  q1 k1 v1
// Pieces are equal, or the first ones are longer by one where ranks do not divide a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/format/reshard.h"

namespace composer {

struct TensorSplit {
  std::vector<int64_t> shape;  // of the whole; shape[dim] is a multiple of groups
  int dim = 0;
  int groups = 1;
  int ranks = 1, rank = 0;

  // A Part is a run of indices along dim.
  struct Part {
    int64_t local, whole, size;  // first index in the rank's tensor, first in the whole, count
    bool operator==(const Part&) const = default;
  };
  std::vector<Part> Parts() const;
  std::vector<int64_t> LocalShape() const;

  // A Box is a box of the rank's tensor, with the place of its first element in the whole.
  struct Box {
    BoxExtent local;
    std::vector<int64_t> offset;
    bool operator==(const Box&) const = default;
  };
  // Cuts `box` of the rank's tensor into boxes of the whole, in order of the whole. Empty ones are left out.
  std::vector<Box> ToWhole(const BoxExtent& box) const;
};

}  // namespace composer
