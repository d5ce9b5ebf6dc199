// SPDX-License-Identifier: Apache-2.0
#include "data/order/draw_skipper.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace composer {
namespace {

constexpr uint32_t kGroup = HalfStream::kGroup, kWideGroup = 64;  // draws that are counted together

// These pass over draws for swaps that have the same mask, group by group, and return how many: until there is no group
// left, or most - (mask >> 1) is not above a group. A draw is accepted if it is at most `most` less those that were
// accepted before it; in a group nearly all are, or are not, whatever was accepted before them in it.

size_t PassGroups(const uint32_t* draws, size_t count, uint32_t mask, uint32_t& most) {
  const bool is_signed = mask <= uint32_t{std::numeric_limits<int32_t>::max()};  // comparisons of vectors are
  size_t passed = 0;
  for (; passed + kGroup <= count && most - (mask >> 1) > kGroup; passed += kGroup, draws += kGroup) {
    const auto least = static_cast<int32_t>(most - kGroup), highest = static_cast<int32_t>(most);
    int32_t certain = 0, possible = 0;
    for (uint32_t i = 0; i < kGroup; ++i) {
      const auto value = static_cast<int32_t>(draws[i] & mask);
      certain += value <= least;
      possible += value <= highest;
    }
    if (is_signed && certain == possible) {
      most -= static_cast<uint32_t>(certain);
      continue;
    }
    for (uint32_t i = 0; i < kGroup; ++i) most -= (draws[i] & mask) <= most;
  }
  return passed;
}

// Returns a bit for each draw of a wide group: whether it is at most `bound` with the mask.
__attribute__((target("avx512f"))) inline uint64_t AtMost(const uint32_t* draws, __m512i masks, uint32_t bound) {
  const __m512i bounds = _mm512_set1_epi32(static_cast<int32_t>(bound));
  uint64_t bits = 0;
  for (uint32_t i = 0; i < kWideGroup; i += 16) {
    const __m512i values = _mm512_and_si512(_mm512_loadu_si512(draws + i), masks);
    bits |= uint64_t{_mm512_cmple_epu32_mask(values, bounds)} << i;
  }
  return bits;
}

__attribute__((target("avx512f,popcnt,bmi"))) size_t PassGroupsWithAvx512(const uint32_t* draws, size_t count,
                                                                          uint32_t mask, uint32_t& most) {
  const __m512i masks = _mm512_set1_epi32(static_cast<int32_t>(mask));
  uint32_t left = most;
  size_t passed = 0;
  for (; passed + kWideGroup <= count && left - (mask >> 1) > kWideGroup; passed += kWideGroup, draws += kWideGroup) {
    uint64_t accepted = AtMost(draws, masks, left - kWideGroup);
    for (uint64_t open = AtMost(draws, masks, left) & ~accepted; open != 0; open &= open - 1) {
      const int i = std::countr_zero(open);
      const auto before = static_cast<uint32_t>(std::popcount(accepted & ((uint64_t{1} << i) - 1)));
      if ((draws[i] & mask) <= left - before) accepted |= uint64_t{1} << i;
    }
    left -= static_cast<uint32_t>(std::popcount(accepted));
  }
  most = left;
  return passed;
}

}  // namespace

DrawSkipper::DrawSkipper(const NumpyGenerator& generator, bool avx512)
    : begin_(generator), avx512_(avx512), stream_(generator, avx512) {
  if (generator.has_half()) draws_[filled_++] = NumpyGenerator(generator).Next32();
}

// Keeps the draws that are left, fewer than kWideGroup, and draws kFill more.
void DrawSkipper::Fill() {
  std::copy(draws_.begin() + static_cast<ptrdiff_t>(used_), draws_.begin() + static_cast<ptrdiff_t>(filled_),
            draws_.begin());
  consumed_ += used_;
  filled_ -= used_;
  used_ = 0;
  stream_.Draw(draws_.data() + filled_, kFill);
  filled_ += kFill;
}

// As Shuffle, whose i-th swap draws until a value is at most i: `most` is that i.
void DrawSkipper::Shuffle(int64_t count) {
  for (auto most = static_cast<uint32_t>(count > 0 ? count - 1 : 0); most >= 1;) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most), next_mask = mask >> 1;
    if (filled_ - used_ < kWideGroup) Fill();
    if (most - next_mask > kWideGroup) {
      const auto pass = avx512_ ? PassGroupsWithAvx512 : PassGroups;
      used_ += pass(draws_.data() + used_, filled_ - used_, mask, most);
    } else {
      for (; used_ < filled_ && most > next_mask; ++used_) most -= (draws_[used_] & mask) <= most;
    }
  }
}

// Every draw swaps, if it is rejected the value with itself, so that there is nothing to predict.
void DrawSkipper::Shuffle(absl::Span<uint32_t> values) {
  uint32_t* const data = values.data();
  for (auto most = static_cast<uint32_t>(values.empty() ? 0 : values.size() - 1); most >= 1;) {
    const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
    if (filled_ == used_) Fill();
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
