// py1e's move: samples get real places, and stand in the order of these places afterwards.
//
// Samples move by half a block at most, so that places never reach far from where the sample was. The order is found in
// one pass with memory for a few blocks: a sample goes into the bucket of its place, and a bucket behind which no later
// sample can fall is sorted and written out, into the part of the array that has been read already.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace composer {

class Spreader {
 public:
  // `ids` is one canonical node's part; `reach` bounds how far a sample moves. Rearranges `ids`, which must outlive it.
  Spreader(absl::Span<uint32_t> ids, int64_t reach);
  // Gives the sample at `index` its place, 0 <= place < ids.size(), |place - index| <= reach. Indices come in order.
  void Place(size_t index, double place) {
    std::vector<Placed>& bucket = buckets_[(static_cast<uint64_t>(place) >> kBits) & mask_];
    bucket.push_back({place, ids_[index]});
  }
  // Writes out what samples from `index` on cannot reach any more. Call it after every 2^kBits calls of Place or fewer.
  void Advance(size_t index);
  // Writes out the rest.
  void Finish();

  static constexpr int kBits = 12;

 private:
  struct Placed {
    double place;
    uint32_t id;
  };
  void WriteBucket();

  const absl::Span<uint32_t> ids_;
  const size_t reach_;
  size_t mask_ = 0;
  std::vector<std::vector<Placed>> buckets_;  // a ring
  size_t next_bucket_ = 0;                    // the first that is not written out
  size_t written_ = 0;
  std::vector<uint32_t> starts_;
  std::vector<Placed> sorted_;
};

}  // namespace composer
