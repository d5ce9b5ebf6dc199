// py1e's move: samples get real places, and stand in the order of these places afterwards.
//
// Samples move by half a block at most, so that places never reach far from where the sample was. The order is found in
// one pass with memory for a few blocks: a sample goes into the bucket of its place, and a bucket behind which no later
// sample can fall is sorted and written out. A pass may begin anywhere: after `first` + 2 * reach samples, what is
// written is what a pass from the beginning would write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace composer {

class Spreader {
 public:
  // One canonical node's part has `size` samples; `reach` bounds how far one moves; those before `first` are left out,
  // and so are places from about `until` on, the sooner of which are cheap to find.
  Spreader(int64_t size, int64_t reach, int64_t first = 0, int64_t until = std::numeric_limits<int64_t>::max());
  // Gives the sample that stood at `index` its place, 0 <= place < size, |place - index| <= reach. Indices come in
  // order, from `first` on.
  void Place(double place, uint32_t id) {
    const auto bucket = static_cast<size_t>(static_cast<int64_t>(place) >> kBits);
    if (bucket < end_bucket_) buckets_[bucket & mask_].push_back({place, id});
  }
  // Appends what samples from `index` on cannot reach any more. Call it after every 2^kBits calls of Place or fewer.
  void Advance(int64_t index, std::vector<uint32_t>& ids);
  // Appends the rest.
  void Finish(std::vector<uint32_t>& ids);
  // Whether all places before `until` have been written.
  bool IsDone() const { return next_bucket_ >= end_bucket_; }

  static constexpr int kBits = 14;

 private:
  struct [[gnu::packed, gnu::aligned(4)]] Placed {  // 12 bytes: most of the time goes into their memory
    double place;
    uint32_t id;
  };
  void WriteBucket(std::vector<uint32_t>& ids);

  const size_t size_, reach_;
  size_t mask_ = 0;
  std::vector<std::vector<Placed>> buckets_;  // a ring
  size_t next_bucket_ = 0;                    // the first that is not written out
  size_t end_bucket_ = 0;                     // behind the last
  std::vector<uint32_t> starts_;
  std::vector<Placed> sorted_;
};

}  // namespace composer
