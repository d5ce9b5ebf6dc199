// The passes over memory of cpu_batch_norm.h in rows of channels (NHWC): a unit of work is a block of rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/kernels/cpu_batch_norm_work.h"

namespace composer::kernels {

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
