// The passes over memory of cpu_batch_norm.h in planes (NCHW): a unit of work is a channel, whose planes mostly stay in
// the cache from one pass to the next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/kernels/cpu_batch_norm_work.h"

namespace composer::kernels {

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

}  // namespace composer::kernels
