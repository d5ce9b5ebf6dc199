// SPDX-License-Identifier: Apache-2.0
#include "data/order/draw_skipper.h"

#include <bit>
#include <limits>

namespace composer {
namespace {

constexpr uint32_t kGroup = 16;  // draws that are counted together

struct Counts {
  uint32_t certain = 0;   // draws that are accepted whatever was accepted before them in the group
  uint32_t possible = 0;  // and those that may be
};

Counts CountGroup(const uint32_t* draws, uint32_t mask, uint32_t most) {
  const auto least = static_cast<int32_t>(most - kGroup), highest = static_cast<int32_t>(most);
  int32_t certain = 0, possible = 0;
  for (uint32_t i = 0; i < kGroup; ++i) {
    const auto value = static_cast<int32_t>(draws[i] & mask);
    certain += value <= least;
    possible += value <= highest;
  }
  return {static_cast<uint32_t>(certain), static_cast<uint32_t>(possible)};
}

}  // namespace

// As Shuffle, whose i-th swap draws until a value is at most i: `most` is that i.
void DrawSkipper::Shuffle(int64_t count) {
  for (auto most = static_cast<uint32_t>(count > 0 ? count - 1 : 0); most >= 1;) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
    if (used_ == kBuffer) {
      if (end_.has_half()) {
        most -= (end_.Next32() & mask) <= most;
        continue;
      }
      begin_ = end_;
      end_.DrawHalves(absl::MakeSpan(draws_));
      used_ = 0;
    }
    size_t one_by_one = 1;
    const uint32_t same_mask = most - (mask >> 1);  // so many acceptances later it is another
    if (same_mask > kGroup && kBuffer - used_ >= kGroup && mask <= uint32_t{std::numeric_limits<int32_t>::max()}) {
      const Counts counts = CountGroup(draws_.data() + used_, mask, most);
      if (counts.certain == counts.possible) {
        most -= counts.certain;
        used_ += kGroup;
        continue;
      }
      one_by_one = kGroup;
    }
    for (; one_by_one > 0; --one_by_one) most -= (draws_[used_++] & mask) <= most;
  }
}

NumpyGenerator DrawSkipper::generator() const {
  if (used_ == kBuffer) return end_;
  NumpyGenerator generator = begin_;
  if (used_ == 0) return generator;
  generator.Skip64((used_ - 1) / 2);
  generator.Next32();
  if (used_ % 2 == 0) generator.Next32();
  return generator;
}

}  // namespace composer
