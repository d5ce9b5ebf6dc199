// The passes over memory of cpu_batch_norm.h, for both layouts: planes (NCHW), where a unit of work is a channel, and
// rows (NHWC), where it is a block of rows with all channels.
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

// a b + c, rounded once where there is such an instruction, as in LibTorch's kernels.
COMPOSER_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return {a.v * b.v + c.v}; }
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

template <typename T>
struct PlanesForward {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t channel = work.begin; channel < work.end; ++channel) OfChannel(work, channel);
  }
  COMPOSER_INLINE static void OfChannel(const BatchNormWork<T>& work, int64_t channel) {
    const int64_t n = work.inner, step = work.channels * n, begin = channel * n;
    if (work.training) Statistics(work, channel);
    const Floats scale = Floats::All(work.weight[channel] * work.rstd[channel]);
    const Floats shift = MultiplyAdd(Floats::All(-work.mean[channel]), scale, Floats::All(work.bias[channel]));
    for (int64_t at = begin; at < work.outer * step; at += step) {
      ForVectors(n, [&](int64_t i, int64_t /*count*/) __attribute__((always_inline)) {
        Store(Finished(work, MultiplyAdd(Load(work.x + at + i, n), scale, shift), at + i, n), work.out + at + i, n);
      });
    }
  }
  // The planes of two samples at a time, so that one sum need not wait for the last.
  COMPOSER_INLINE static void Statistics(const BatchNormWork<T>& work, int64_t channel) {
    const auto count = static_cast<double>(work.outer * work.inner);
    const double mean = Total(work, channel, 0, [](Doubles x) __attribute__((always_inline)) { return x; }) / count;
    const double var =
        Total(work, channel, mean, [](Doubles x) __attribute__((always_inline)) { return x * x; }) / count;
    work.mean[channel] = static_cast<float>(mean);
    work.var[channel] = static_cast<float>(var);
    work.rstd[channel] = static_cast<float>(1 / std::sqrt(var + work.eps));
  }
  template <typename Of>
  COMPOSER_INLINE static double Total(const BatchNormWork<T>& work, int64_t channel, double mean, Of of) {
    const int64_t n = work.inner, step = work.channels * n;
    const T* x = work.x + channel * n;
    const Doubles from = Doubles::All(mean);
    Doubles sums[2] = {Doubles::All(0), Doubles::All(0)};
    int64_t sample = 0;
    for (; sample + 2 <= work.outer; sample += 2, x += 2 * step) {
      ForVectors(n, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        for (int64_t k = 0; k < 2; ++k)
          sums[k] = sums[k] + OnlyNew(of(Wide(Load(x + k * step + i, n)) - from), n, count);
      });
    }
    if (sample < work.outer) {
      ForVectors(n, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        sums[0] = sums[0] + OnlyNew(of(Wide(Load(x + i, n)) - from), n, count);
      });
    }
    return Sum(sums[0] + sums[1]);
  }
};

template <typename T>
struct PlanesBackward {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t channel = work.begin; channel < work.end; ++channel) {
      Sums(work, channel);
      Gradients(work, channel);
    }
  }
  COMPOSER_INLINE static void Sums(const BatchNormWork<T>& work, int64_t channel) {
    const int64_t n = work.inner, step = work.channels * n, end = work.outer * step;
    const Doubles mean = Doubles::All(static_cast<double>(work.mean[channel]));
    Doubles sums[2] = {Doubles::All(0), Doubles::All(0)}, products[2] = {Doubles::All(0), Doubles::All(0)};
    int64_t at = channel * n;
    for (; at + step < end; at += 2 * step) {
      ForVectors(n, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        Add(work, at + i, n, count, mean, sums[0], products[0]);
        Add(work, at + step + i, n, count, mean, sums[1], products[1]);
      });
    }
    if (at < end) {
      ForVectors(n, [&](int64_t i, int64_t count)
                        __attribute__((always_inline)) { Add(work, at + i, n, count, mean, sums[0], products[0]); });
    }
    work.first[channel] = static_cast<float>(Sum(sums[0] + sums[1]));
    work.second[channel] = static_cast<float>(Sum(products[0] + products[1]) * static_cast<double>(work.rstd[channel]));
  }
  COMPOSER_INLINE static void Gradients(const BatchNormWork<T>& work, int64_t channel) {
    const int64_t n = work.inner, step = work.channels * n;
    const float mean = work.mean[channel], rstd = work.rstd[channel], weight = work.weight[channel];
    const auto count = static_cast<float>(work.outer * n);
    const float of_g = work.first[channel] / count, of_h = work.second[channel] * rstd / count;
    for (int64_t at = channel * n; at < work.outer * step; at += step) {
      ForVectors(n, [&](int64_t i, int64_t /*count*/) __attribute__((always_inline)) {
        const int64_t here = at + i;
        const Floats g = work.dshortcut == nullptr ? Gradient(work, here, n) : Load(work.dshortcut + here, n);
        const Floats from_mean = Load(work.x + here, n) - mean;
        Store(MultiplyAdd(from_mean, Floats::All(-of_h), g - of_g) * rstd * weight, work.out + here, n);
      });
    }
  }
  COMPOSER_INLINE static void Add(const BatchNormWork<T>& work, int64_t at, int64_t n, int64_t count, Doubles mean,
                                  Doubles& sum, Doubles& product) {
    const Floats g = Gradient(work, at, n);
    if (work.dshortcut != nullptr) Store(g, work.dshortcut + at, n);
    const Doubles fresh = OnlyNew(Wide(g), n, count);
    sum = sum + fresh;
    product = product + fresh * (Wide(Load(work.x + at, n)) - mean);
  }
};

// Mean (first) and sum of squares around it (second) of a block.
template <typename T>
struct RowsStatistics {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t block = work.begin; block < work.end; ++block) {
      const int64_t begin = block * work.block_rows, end = std::min(work.outer, begin + work.block_rows);
      for (int64_t i = 0; i < work.channels; i += kLanes) {
        const int64_t n = work.channels - i;
        const T* x = work.x + i;
        const Doubles mean = Total(x, begin, end, work.channels, n, Doubles::All(0),
                                   [](Doubles of) __attribute__((always_inline)) { return of; }) *
                             Doubles::All(1 / static_cast<double>(end - begin));
        const Doubles squares = Total(x, begin, end, work.channels, n, mean,
                                      [](Doubles of) __attribute__((always_inline)) { return of * of; });
        Store(Narrow(mean), work.first + block * work.channels + i, n);
        Store(Narrow(squares), work.second + block * work.channels + i, n);
      }
    }
  }
  template <typename Of>
  COMPOSER_INLINE static Doubles Total(const T* x, int64_t begin, int64_t end, int64_t channels, int64_t n,
                                       Doubles from, Of of) {
    Doubles sums[2] = {Doubles::All(0), Doubles::All(0)};
    int64_t row = begin;
    for (; row + 2 <= end; row += 2) {
      for (int64_t k = 0; k < 2; ++k) sums[k] = sums[k] + of(Wide(Load(x + (row + k) * channels, n)) - from);
    }
    if (row < end) sums[0] = sums[0] + of(Wide(Load(x + row * channels, n)) - from);
    return sums[0] + sums[1];
  }
};

template <typename T>
struct RowsForward {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t block = work.begin; block < work.end; ++block) {
      const int64_t begin = block * work.block_rows, end = std::min(work.outer, begin + work.block_rows);
      for (int64_t i = 0; i < work.channels; i += kLanes) {
        const int64_t n = work.channels - i;
        const Floats scale = Load(work.weight + i, n) * Load(work.rstd + i, n);
        const Floats shift = MultiplyAdd(Load(work.mean + i, n) * -1.0F, scale, Load(work.bias + i, n));
        for (int64_t row = begin; row < end; ++row) {
          const int64_t at = row * work.channels + i;
          Store(Finished(work, MultiplyAdd(Load(work.x + at, n), scale, shift), at, n), work.out + at, n);
        }
      }
    }
  }
};

// The sums of g (first) and of g h (second) of a block, and dshortcut.
template <typename T>
struct RowsSums {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t block = work.begin; block < work.end; ++block) {
      const int64_t begin = block * work.block_rows, end = std::min(work.outer, begin + work.block_rows);
      for (int64_t i = 0; i < work.channels; i += kLanes) OfVector(work, block, begin, end, i);
    }
  }
  COMPOSER_INLINE static void OfVector(const BatchNormWork<T>& work, int64_t block, int64_t begin, int64_t end,
                                       int64_t i) {
    const int64_t n = work.channels - i;
    const Doubles mean = Wide(Load(work.mean + i, n));
    Doubles sums[2] = {Doubles::All(0), Doubles::All(0)}, products[2] = {Doubles::All(0), Doubles::All(0)};
    int64_t row = begin;
    for (; row + 2 <= end; row += 2) {
      for (int64_t k = 0; k < 2; ++k) Add(work, (row + k) * work.channels + i, n, mean, sums[k], products[k]);
    }
    if (row < end) Add(work, row * work.channels + i, n, mean, sums[0], products[0]);
    Store(Narrow(sums[0] + sums[1]), work.first + block * work.channels + i, n);
    Store(Narrow(products[0] + products[1]), work.second + block * work.channels + i, n);
  }
  COMPOSER_INLINE static void Add(const BatchNormWork<T>& work, int64_t at, int64_t n, Doubles mean, Doubles& sum,
                                  Doubles& product) {
    const Floats g = Gradient(work, at, n);
    if (work.dshortcut != nullptr) Store(g, work.dshortcut + at, n);
    sum = sum + Wide(g);
    product = product + Wide(g) * (Wide(Load(work.x + at, n)) - mean);
  }
};

// dx, where `first` and `second` are [channels], the sums over all blocks.
template <typename T>
struct RowsBackward {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t block = work.begin; block < work.end; ++block) {
      const int64_t begin = block * work.block_rows, end = std::min(work.outer, begin + work.block_rows);
      for (int64_t i = 0; i < work.channels; i += kLanes) OfVector(work, begin, end, i);
    }
  }
  COMPOSER_INLINE static void OfVector(const BatchNormWork<T>& work, int64_t begin, int64_t end, int64_t i) {
    const int64_t n = work.channels - i;
    const float of_one = 1 / static_cast<float>(work.outer);
    const Floats rstd = Load(work.rstd + i, n), scale = Load(work.weight + i, n) * rstd, mean = Load(work.mean + i, n);
    const Floats of_g = Load(work.first + i, n) * of_one, minus_of_h = Load(work.second + i, n) * rstd * -of_one;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * work.channels + i;
      const Floats g = work.dshortcut == nullptr ? Gradient(work, at, n) : Load(work.dshortcut + at, n);
      Store(MultiplyAdd(Load(work.x + at, n) - mean, minus_of_h, g - of_g) * scale, work.out + at, n);
    }
  }
};

}  // namespace composer::kernels
