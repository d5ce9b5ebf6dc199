// What the passes of both layouts (cpu_batch_norm_planes.h, cpu_batch_norm_rows.h) work on, and their arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "trainer/kernels/cpu_vector.h"

namespace composer::kernels {

// Of T, float or uint16_t (a bfloat16). `outer` x `channels` x `inner` numbers; inner is 1 for rows.
template <typename T>
struct BatchNormWork {
  const T *x, *shortcut, *y, *dy;  // shortcut: null for none; y, dy: backward; y: null without ReLU
  T *out, *dshortcut;              // out: y or dx; dshortcut: null for none
  const float *weight, *bias;
  float *mean, *var, *rstd;  // [channels]
  float *first, *second;     // [blocks, channels]: the sums of a block; of planes [channels]
  int64_t outer, channels, inner, block_rows;
  double eps;
  bool relu, training;
  int64_t begin, end;
};

// Sixteen float64 numbers, in which LibTorch makes these sums too, so that results differ from its in last bits alone.
struct Doubles {
  using Raw = double __attribute__((vector_size(128)));
  Raw v;

  COMPOSER_INLINE static Doubles All(double x) { return {Raw{} + x}; }
  COMPOSER_INLINE friend Doubles operator+(Doubles a, Doubles b) { return {a.v + b.v}; }
  COMPOSER_INLINE friend Doubles operator-(Doubles a, Doubles b) { return {a.v - b.v}; }
  COMPOSER_INLINE friend Doubles operator*(Doubles a, Doubles b) { return {a.v * b.v}; }
};
COMPOSER_INLINE Doubles Wide(Floats x) { return {__builtin_convertvector(x.v, Doubles::Raw)}; }
COMPOSER_INLINE Floats Narrow(Doubles x) { return {__builtin_convertvector(x.v, Floats::Raw)}; }
COMPOSER_INLINE double Sum(Doubles x) {
  double lanes[kLanes];
  std::memcpy(lanes, &x, sizeof(lanes));
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

COMPOSER_INLINE Floats Positive(Floats x) { return {x.v < Floats::Raw{} ? Floats::Raw{} : x.v}; }  // NaN stays
COMPOSER_INLINE Floats WherePositive(Floats y, Floats dy) { return {y.v <= Floats::Raw{} ? Floats::Raw{} : dy.v}; }

// Calls of(i, count, whole) for the vectors of n numbers: the last one begins early, so that it is whole, and of it
// only the last `count` numbers are new; of fewer than 16 numbers there is one vector that is not whole.
template <typename Of>
COMPOSER_INLINE void ForVectors(int64_t n, Of of) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) of(i, kLanes);
  if (i < n) of(std::max<int64_t>(0, n - kLanes), n - i);
}
// With 0 in the lanes that are not new.
COMPOSER_INLINE Doubles OnlyNew(Doubles x, int64_t n, int64_t count) {
  if (count == kLanes) return x;
  constexpr Integers kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const Integers first = Integers{} + static_cast<int32_t>(n < kLanes ? 0 : kLanes - count);
  const Integers end = Integers{} + static_cast<int32_t>(n < kLanes ? n : kLanes);
  const Floats::Raw one = Floats::All(1).v;
  return x * Wide({((kLane >= first) & (kLane < end)) ? one : Floats::Raw{}});
}

// g, with dy where ReLU let pass.
template <typename T>
COMPOSER_INLINE Floats Gradient(const BatchNormWork<T>& work, int64_t at, int64_t n) {
  const Floats dy = Load(work.dy + at, n);
  return work.y == nullptr ? dy : WherePositive(Load(work.y + at, n), dy);
}
template <typename T>
COMPOSER_INLINE Floats Finished(const BatchNormWork<T>& work, Floats z, int64_t at, int64_t n) {
  if (work.shortcut != nullptr) z = z + Load(work.shortcut + at, n);
  return work.relu ? Positive(z) : z;
}

}  // namespace composer::kernels
