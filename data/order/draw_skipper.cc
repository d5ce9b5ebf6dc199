// SPDX-License-Identifier: Apache-2.0
#include "data/order/draw_skipper.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace composer {
namespace {

constexpr uint32_t kGroup = 32;  // draws that are counted together

struct DrawCounts {
  uint32_t certain = 0;   // draws that are accepted whatever was accepted before them in the group
  uint32_t possible = 0;  // and those that may be
};

DrawCounts CountGroup(const uint32_t* draws, uint32_t mask, uint32_t most) {
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

DrawSkipper::DrawSkipper(const NumpyGenerator& generator) : begin_(generator), stream_(generator) {
  if (generator.has_half()) draws_[filled_++] = NumpyGenerator(generator).Next32();
}

// Makes room, and draws until there are `least` draws or more.
void DrawSkipper::Fill(size_t least) {
  std::copy(draws_.begin() + static_cast<ptrdiff_t>(used_), draws_.begin() + static_cast<ptrdiff_t>(filled_),
            draws_.begin());
  consumed_ += used_;
  filled_ -= used_;
  used_ = 0;
  for (; filled_ < least; filled_ += kGroup) stream_.Draw(draws_.data() + filled_, kGroup);
}

// As Shuffle, whose i-th swap draws until a value is at most i: `most` is that i. While draws are counted, others are
// made, so that the processor does both at once.
void DrawSkipper::Shuffle(int64_t count) {
  for (auto most = static_cast<uint32_t>(count > 0 ? count - 1 : 0); most >= 1;) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
    if (filled_ - used_ < kGroup || filled_ + kGroup > kBuffer) Fill(2 * kGroup);
    const uint32_t same_mask = most - (mask >> 1);  // so many acceptances later it is another
    size_t one_by_one = 1;
    if (same_mask > kGroup && mask <= uint32_t{std::numeric_limits<int32_t>::max()}) {
      stream_.Draw(draws_.data() + filled_, kGroup);
      filled_ += kGroup;
      const DrawCounts counts = CountGroup(draws_.data() + used_, mask, most);
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

// Every draw swaps, if it is rejected the value with itself, so that there is nothing to predict.
void DrawSkipper::Shuffle(absl::Span<uint32_t> values) {
  uint32_t* const data = values.data();
  for (auto most = static_cast<uint32_t>(values.empty() ? 0 : values.size() - 1); most >= 1;) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
    if (filled_ == used_) Fill(kBuffer / 2);
    const size_t end = used_ + std::min<size_t>(filled_ - used_, most - (mask >> 1));  // up to there it is the mask
    for (; used_ < end; ++used_) {
      const uint32_t drawn = draws_[used_] & mask;
      const bool accepted = drawn <= most;
      std::swap(data[most], data[accepted ? drawn : most]);
      most -= accepted;
    }
  }
}

NumpyGenerator DrawSkipper::generator() const {
  NumpyGenerator generator = begin_;
  generator.Skip32(draws());
  return generator;
}

}  // namespace composer
