// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace composer {
namespace {

constexpr int kDigitBits = 32;
constexpr int64_t kDigitMask = (int64_t{1} << kDigitBits) - 1;
constexpr int64_t kMaxAdds = int64_t{1} << 30;  // each adds less than 2^32 to a digit

}  // namespace

void ExactSum::Add(double term) {
  const auto bits = std::bit_cast<uint64_t>(term);
  const int exponent = static_cast<int>(bits >> 52) & 0x7ff;
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) {
    ++words_[mantissa == 0 ? kInfinities : kNans];
    return;
  }
  if (exponent != 0) mantissa |= uint64_t{1} << 52;
  const int place = std::max(exponent, 1) - 1;  // term = mantissa 2^(place - 1074)
  const auto shifted = static_cast<unsigned __int128>(mantissa) << (place % kDigitBits);
  const int lowest = place / kDigitBits;
  first_ = std::min(first_, lowest);
  last_ = std::max(last_, lowest + 2);
  int64_t* digit = &words_[static_cast<size_t>(lowest)];
  digit[0] += static_cast<int64_t>(shifted) & kDigitMask;
  digit[1] += static_cast<int64_t>(shifted >> kDigitBits) & kDigitMask;
  digit[2] += static_cast<int64_t>(shifted >> (2 * kDigitBits));
  if (++adds_ == kMaxAdds) Carry();
}

void ExactSum::Carry() {
  int64_t carry = 0;
  for (int i = first_; i < kDigits && (i <= last_ || carry != 0); ++i) {
    const int64_t digit = words_[static_cast<size_t>(i)] + carry;
    const bool last = i + 1 == kDigits;
    words_[static_cast<size_t>(i)] = last ? digit : digit & kDigitMask;
    carry = digit >> kDigitBits;
    last_ = std::max(last_, i);
  }
  adds_ = 0;
}

absl::Span<const int64_t> ExactSum::words() {
  Carry();
  return words_;
}

void ExactSum::Set(absl::Span<const int64_t> words) {
  std::copy_n(words.begin(), kWords, words_.begin());
  first_ = 0;
  last_ = kDigits - 1;
  Carry();
}

double ExactSum::Total() {
  Carry();
  if (words_[kNans] > 0) return std::numeric_limits<double>::quiet_NaN();
  if (words_[kInfinities] > 0) return std::numeric_limits<double>::infinity();
  double total = 0;
  for (int i = last_; i >= first_; --i) {
    if (const int64_t digit = words_[static_cast<size_t>(i)]; digit != 0)
      total += std::ldexp(static_cast<double>(digit), i * kDigitBits - 1074);
  }
  return total;
}

}  // namespace composer
