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
  float eps;
  bool relu, training;
  int64_t begin, end;
};

// The last `count` lanes, and 0 in the others.
COMPOSER_INLINE Floats LastLanes(Floats x, int64_t count) {
  constexpr Integers kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return {kLane >= static_cast<int32_t>(kLanes - count) ? x.v : Floats::Raw{}};
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
COMPOSER_INLINE Floats OnlyNew(Floats x, int64_t n, int64_t count) {
  if (count == kLanes) return x;
  if (n >= kLanes) return LastLanes(x, count);
  float lanes[kLanes] = {}, all[kLanes];
  StoreAll(x, all);
  for (int64_t i = 0; i < n; ++i) lanes[i] = all[i];
  return LoadAll(lanes);
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
    const float scale = work.weight[channel] * work.rstd[channel];
    const float shift = work.bias[channel] - work.mean[channel] * scale;
    for (int64_t at = begin; at < work.outer * step; at += step) {
      ForVectors(n, [&](int64_t i, int64_t /*count*/) __attribute__((always_inline)) {
        Store(Finished(work, Load(work.x + at + i, n) * scale + shift, at + i, n), work.out + at + i, n);
      });
    }
  }
  // The planes of four samples at a time, so that one sum need not wait for the last.
  COMPOSER_INLINE static void Statistics(const BatchNormWork<T>& work, int64_t channel) {
    const auto count = static_cast<float>(work.outer * work.inner);
    const float mean = Total(work, channel, 0, [](Floats x) __attribute__((always_inline)) { return x; }) / count;
    work.mean[channel] = mean;
    const float var = Total(work, channel, mean, [](Floats x) __attribute__((always_inline)) { return x * x; }) / count;
    work.var[channel] = var;
    work.rstd[channel] = 1 / std::sqrt(var + work.eps);
  }
  template <typename Of>
  COMPOSER_INLINE static float Total(const BatchNormWork<T>& work, int64_t channel, float from, Of of) {
    const int64_t n = work.inner, step = work.channels * n;
    const T* x = work.x + channel * n;
    Floats sums[4] = {Floats::All(0), Floats::All(0), Floats::All(0), Floats::All(0)};
    int64_t sample = 0;
    for (; sample + 4 <= work.outer; sample += 4, x += 4 * step) {
      ForVectors(n, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        for (int64_t k = 0; k < 4; ++k) sums[k] = sums[k] + OnlyNew(of(Load(x + k * step + i, n) - from), n, count);
      });
    }
    for (; sample < work.outer; ++sample, x += step) {
      ForVectors(n, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        sums[0] = sums[0] + OnlyNew(of(Load(x + i, n) - from), n, count);
      });
    }
    return Sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }
};

template <typename T>
struct PlanesBackward {
  COMPOSER_INLINE static void Run(const BatchNormWork<T>& work) {
    for (int64_t channel = work.begin; channel < work.end; ++channel) OfChannel(work, channel);
  }
  COMPOSER_INLINE static void OfChannel(const BatchNormWork<T>& work, int64_t channel) {
    const int64_t n = work.inner, step = work.channels * n, begin = channel * n, end = work.outer * step;
    const float mean = work.mean[channel], rstd = work.rstd[channel];
    Floats sums[2] = {Floats::All(0), Floats::All(0)}, products[2] = {Floats::All(0), Floats::All(0)};
    int64_t at = begin;
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
    const float sum = Sum(sums[0] + sums[1]), product = Sum(products[0] + products[1]) * rstd;
    work.first[channel] = sum;
    work.second[channel] = product;
    const auto count = static_cast<float>(work.outer * n);
    const float scale = work.weight[channel] * rstd, of_g = sum / count, of_h = product / count * rstd;
    for (at = begin; at < end; at += step) {
      ForVectors(n, [&](int64_t i, int64_t /*count*/) __attribute__((always_inline)) {
        const int64_t here = at + i;
        const Floats g = work.dshortcut == nullptr ? Gradient(work, here, n) : Load(work.dshortcut + here, n);
        Store((g - of_g - (Load(work.x + here, n) - mean) * of_h) * scale, work.out + here, n);
      });
    }
  }
  COMPOSER_INLINE static void Add(const BatchNormWork<T>& work, int64_t at, int64_t n, int64_t count, float mean,
                                  Floats& sum, Floats& product) {
    const Floats g = Gradient(work, at, n);
    if (work.dshortcut != nullptr) Store(g, work.dshortcut + at, n);
    const Floats fresh = OnlyNew(g, n, count);
    sum = sum + fresh;
    product = product + OnlyNew(g * (Load(work.x + at, n) - mean), n, count);
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
        const Floats sum = Total(x, begin, end, work.channels, n, Floats::All(0),
                                 [](Floats of) __attribute__((always_inline)) { return of; });
        const Floats mean = sum * (1 / static_cast<float>(end - begin));
        const Floats squares = Total(x, begin, end, work.channels, n, mean,
                                     [](Floats of) __attribute__((always_inline)) { return of * of; });
        Store(mean, work.first + block * work.channels + i, n);
        Store(squares, work.second + block * work.channels + i, n);
      }
    }
  }
  template <typename Of>
  COMPOSER_INLINE static Floats Total(const T* x, int64_t begin, int64_t end, int64_t channels, int64_t n, Floats from,
                                      Of of) {
    Floats sums[4] = {Floats::All(0), Floats::All(0), Floats::All(0), Floats::All(0)};
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) {
      for (int64_t k = 0; k < 4; ++k) sums[k] = sums[k] + of(Load(x + (row + k) * channels, n) - from);
    }
    for (; row < end; ++row) sums[0] = sums[0] + of(Load(x + row * channels, n) - from);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
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
        const Floats shift = Load(work.bias + i, n) - Load(work.mean + i, n) * scale;
        for (int64_t row = begin; row < end; ++row) {
          const int64_t at = row * work.channels + i;
          Store(Finished(work, Load(work.x + at, n) * scale + shift, at, n), work.out + at, n);
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
    const Floats mean = Load(work.mean + i, n);
    Floats sums[2] = {Floats::All(0), Floats::All(0)}, products[2] = {Floats::All(0), Floats::All(0)};
    int64_t row = begin;
    for (; row + 2 <= end; row += 2) {
      for (int64_t k = 0; k < 2; ++k) Add(work, (row + k) * work.channels + i, n, mean, sums[k], products[k]);
    }
    if (row < end) Add(work, row * work.channels + i, n, mean, sums[0], products[0]);
    Store(sums[0] + sums[1], work.first + block * work.channels + i, n);
    Store(products[0] + products[1], work.second + block * work.channels + i, n);
  }
  COMPOSER_INLINE static void Add(const BatchNormWork<T>& work, int64_t at, int64_t n, Floats mean, Floats& sum,
                                  Floats& product) {
    const Floats g = Gradient(work, at, n);
    if (work.dshortcut != nullptr) Store(g, work.dshortcut + at, n);
    sum = sum + g;
    product = product + g * (Load(work.x + at, n) - mean);
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
    const Floats of_g = Load(work.first + i, n) * of_one, of_h = Load(work.second + i, n) * of_one * rstd;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * work.channels + i;
      const Floats g = work.dshortcut == nullptr ? Gradient(work, at, n) : Load(work.dshortcut + at, n);
      Store((g - of_g - (Load(work.x + at, n) - mean) * of_h) * scale, work.out + at, n);
    }
  }
};

}  // namespace composer::kernels
