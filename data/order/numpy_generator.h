// numpy's default_rng: PCG64 (XSL-RR 128/64) seeded by SeedSequence, with the draws that mosaicml-streaming makes. The
// same seed and the same calls give the same numbers, bit for bit, as numpy 1.17 to 2.3.
//
// numpy keeps the upper half of a 64-bit draw for the next 32-bit draw, also across draws of other kinds; so does this.
// A plain value, not thread-safe. Source: numpy/random (_generator.pyx, src/distributions/distributions.c, pcg64.h);
// O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace composer {

class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);

  uint64_t Next64() {
    state_ = state_ * kMultiplier + increment_;
    return Output(state_);
  }
  uint32_t Next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const uint64_t next = Next64();
    has_half_ = true;
    half_ = static_cast<uint32_t>(next >> 32);
    return static_cast<uint32_t>(next);
  }
  // Whether a 64-bit draw's upper half waits for Next32.
  bool has_half() const { return has_half_; }
  // Passes over so many draws of Next64, in a time that hardly depends on their number.
  void Skip64(uint64_t count);
  // Passes over so many draws of Next32.
  void Skip32(uint64_t count);
  // uniform(low, high) with a range already subtracted: low + range * [0, 1).
  double Uniform(double low, double range) { return low + range * (static_cast<double>(Next64() >> 11) * 0x1.0p-53); }
  // integers(low, high): uniform in [low, high), low < high; Lemire's method.
  int64_t Integers(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Bounded(static_cast<uint64_t>(high - low - 1)));
  }
  // choice(count, chosen, replace=False): `chosen` <= count different numbers below `count`, in random order.
  std::vector<int64_t> Choice(int64_t count, int64_t chosen);
  // shuffle(list or one-dimensional array). Its bounds are drawn by masking and rejecting, unlike Integers.
  template <typename T>
  void Shuffle(absl::Span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[UpTo(i)]);
  }
  // permutation(count); count < 2^32.
  std::vector<uint32_t> Permutation(uint32_t count);

 private:
  friend class HalfStream;
  static constexpr unsigned __int128 kMultiplier =
      (static_cast<unsigned __int128>(2549297995355413924ULL) << 64) | 4865540595714422341ULL;

  static uint64_t Output(unsigned __int128 state) {
    return std::rotr(static_cast<uint64_t>(state >> 64) ^ static_cast<uint64_t>(state), static_cast<int>(state >> 122));
  }
  // Uniform in [0, most], as numpy's random_interval.
  uint64_t UpTo(uint64_t most) {
    const uint64_t mask = ~uint64_t{0} >> std::countl_zero(most | 1);
    uint64_t value;
    do {
      value = (most <= 0xffffffffU ? Next32() : Next64()) & mask;
    } while (value > most);
    return value;
  }
  // Uniform in [0, most], as numpy's random_bounded_uint64 without masks.
  uint64_t Bounded(uint64_t most);

  unsigned __int128 state_ = 0;
  unsigned __int128 increment_ = 0;
  bool has_half_ = false;
  uint32_t half_ = 0;
};

}  // namespace composer
