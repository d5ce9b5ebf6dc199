// ExactSum is the sum of doubles without rounding: it is the same in any order and any division into parts, hence for
// any number of ranks that hold the parts. It is a long fixed-point number with a place for every bit of a double, in
// words of 32 bits with room for carries (Kulisch; Neal 2015, arXiv:1505.05571, the small superaccumulator).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace composer {

// Threads: one.
class ExactSum {
 public:
  // Adds any double of at least 0; NaN and infinity are remembered.
  void Add(double term);

  // To add up to 2^30 sums word by word, as integers: call words() of each, add, then Set. words() carries first.
  absl::Span<const int64_t> words();
  void Set(absl::Span<const int64_t> words);

  // Returns the sum, rounded to double in a way that depends only on the sum.
  double Total();

  static constexpr int kDigits = 69;  // of 32 bits: 2,098 bits of doubles, then carries
  static constexpr int kWords = kDigits + 2;

 private:
  static constexpr int kInfinities = kDigits, kNans = kDigits + 1;
  void Carry();

  std::array<int64_t, kWords> words_{};  // digit i counts 2^(32 i - 1074); then the numbers of infinities and of NaNs
  int first_ = kDigits, last_ = -1;      // digits outside these are 0
  int64_t adds_ = 0;                     // since the last Carry
};

}  // namespace composer
