// Values for tests of kernels: tensors of exactly their size, so that the address sanitizer sees what is outside, and a
// comparison with formulas computed in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/support/kernels/execution.h"
#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {

// Memory of the device: aligned as LibTorch's is, or `shift` elements beside.
template <typename T>
class Values {
 public:
  explicit Values(int64_t size, int64_t shift = 0) : size_(size), shift_(shift) {
    const size_t bytes = static_cast<size_t>(size + shift) * sizeof(T);
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) std::abort();
    std::memset(memory, 0xFF, bytes);  // NaN, as the mock's
    memory_.reset(static_cast<T*>(memory));
  }
  static Values Drawn(int64_t size, uint64_t seed, float mean = 0, float deviation = 1, int64_t shift = 0) {
    Values values(size, shift);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> draw(mean, deviation);
    for (int64_t i = 0; i < size; ++i) values.data()[i] = FromFloat<T>(draw(random));
    return values;
  }
  T* data() const { return memory_.get() + shift_; }
  double operator[](int64_t i) const { return ToFloat(data()[i]); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
  int64_t size_, shift_;
};

// Half a unit in the last place of T, relative, and what float32 sums lose.
template <typename T>
double Rounding() {
  return std::is_same_v<T, float> ? 2e-6 : 1.0 / 256 + 2e-6;
}

template <typename T>
Type TypeOf() {
  return std::is_same_v<T, float> ? Type::kFloat : Type::kBf16;
}

// Each is within `relative` of what is wanted, or within relative * scale where that is near 0.
template <typename T>
void ExpectNear(const Values<T>& values, const std::vector<double>& wanted, double relative, double scale = 1) {
  ASSERT_EQ(values.size(), static_cast<int64_t>(wanted.size()));
  for (int64_t i = 0; i < values.size(); ++i) {
    const double want = wanted[static_cast<size_t>(i)];
    ASSERT_NEAR(values[i], want, relative * std::max(std::abs(want), scale)) << "element " << i;
  }
}

// The sums over the first dimension of [parts, width].
inline std::vector<double> SumOfParts(const Values<float>& parts, int64_t width) {
  std::vector<double> sums(static_cast<size_t>(width));
  for (int64_t i = 0; i < parts.size(); ++i) sums[static_cast<size_t>(i % width)] += parts[i];
  return sums;
}

}  // namespace composer::device
