// SPDX-License-Identifier: Apache-2.0
#include "data/order/half_stream.h"

#include <immintrin.h>

namespace composer {
namespace {

uint64_t High(unsigned __int128 value) { return static_cast<uint64_t>(value >> 64); }
uint64_t Low(unsigned __int128 value) { return static_cast<uint64_t>(value); }

// Eight numbers of 128 bits.
struct Wide {
  __m512i low, high;
};

#define COMPOSER_AVX512 __attribute__((target("avx512f,avx512dq")))

COMPOSER_AVX512 __m512i Eight(uint64_t value) { return _mm512_set1_epi64(static_cast<int64_t>(value)); }

// Returns states * factor + sum. The upper half of a product of 64 bits is put together from four of 32.
COMPOSER_AVX512 inline Wide Advance(Wide states, Wide factor, __m512i factor_middle, Wide sum) {
  const __m512i half = _mm512_set1_epi64(0xffffffff);
  const __m512i middle = _mm512_srli_epi64(states.low, 32);
  const __m512i one = _mm512_add_epi64(_mm512_mul_epu32(middle, factor.low),
                                       _mm512_srli_epi64(_mm512_mul_epu32(states.low, factor.low), 32));
  const __m512i other = _mm512_add_epi64(_mm512_mul_epu32(states.low, factor_middle), _mm512_and_si512(one, half));
  __m512i high = _mm512_add_epi64(_mm512_mul_epu32(middle, factor_middle),
                                  _mm512_add_epi64(_mm512_srli_epi64(one, 32), _mm512_srli_epi64(other, 32)));
  high = _mm512_add_epi64(
      high, _mm512_add_epi64(_mm512_mullo_epi64(states.low, factor.high), _mm512_mullo_epi64(states.high, factor.low)));
  const __m512i low = _mm512_add_epi64(_mm512_mullo_epi64(states.low, factor.low), sum.low);
  high = _mm512_add_epi64(high, sum.high);
  const __mmask8 carried = _mm512_cmplt_epu64_mask(low, sum.low);
  return {low, _mm512_mask_add_epi64(high, carried, high, _mm512_set1_epi64(1))};
}

COMPOSER_AVX512 inline void Output(Wide states, uint32_t* halves) {
  const __m512i mixed = _mm512_xor_si512(states.low, states.high);
  _mm512_storeu_si512(halves, _mm512_rorv_epi64(mixed, _mm512_srli_epi64(states.high, 58)));
}

}  // namespace

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return has;
}

HalfStream::HalfStream(const NumpyGenerator& generator, bool avx512) : avx512_(avx512) {
  unsigned __int128 state = generator.state_;
  for (size_t i = 0; i < kLanes; ++i) {
    factor_ *= NumpyGenerator::kMultiplier;
    sum_ = sum_ * NumpyGenerator::kMultiplier + generator.increment_;
    state = state * NumpyGenerator::kMultiplier + generator.increment_;
    low_[i] = Low(state);
    high_[i] = High(state);
  }
}

void HalfStream::Draw(uint32_t* halves, size_t count) {
  avx512_ ? DrawWithAvx512(halves, count) : DrawPlainly(halves, count);
}

// The multiplications of the lanes overlap.
void HalfStream::DrawPlainly(uint32_t* halves, size_t count) {
  for (size_t i = 0; i < count; i += kGroup) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      unsigned __int128 state = (static_cast<unsigned __int128>(high_[lane]) << 64) | low_[lane];
      const uint64_t drawn = NumpyGenerator::Output(state);
      halves[i + 2 * lane] = static_cast<uint32_t>(drawn);
      halves[i + 2 * lane + 1] = static_cast<uint32_t>(drawn >> 32);
      state = state * factor_ + sum_;
      low_[lane] = Low(state);
      high_[lane] = High(state);
    }
  }
}

COMPOSER_AVX512 void HalfStream::DrawWithAvx512(uint32_t* halves, size_t count) {
  const Wide factor = {Eight(Low(factor_)), Eight(High(factor_))}, sum = {Eight(Low(sum_)), Eight(High(sum_))};
  const __m512i factor_middle = _mm512_srli_epi64(factor.low, 32);
  Wide first = {_mm512_loadu_si512(low_.data()), _mm512_loadu_si512(high_.data())};
  Wide second = {_mm512_loadu_si512(low_.data() + 8), _mm512_loadu_si512(high_.data() + 8)};
  for (size_t i = 0; i < count; i += kGroup) {
    Output(first, halves + i);
    Output(second, halves + i + kGroup / 2);
    first = Advance(first, factor, factor_middle, sum);
    second = Advance(second, factor, factor_middle, sum);
  }
  _mm512_storeu_si512(low_.data(), first.low);
  _mm512_storeu_si512(high_.data(), first.high);
  _mm512_storeu_si512(low_.data() + 8, second.low);
  _mm512_storeu_si512(high_.data() + 8, second.high);
}

}  // namespace composer
