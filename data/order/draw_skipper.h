// Passes over the random numbers that shuffles draw, without shuffling: how many these are depends on their values,
// because some are rejected. About 2 ns a value that would be shuffled, so that what comes after a long shuffle can be
// computed long before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/order/numpy_generator.h"

namespace composer {

// A plain value, not thread-safe.
class DrawSkipper {
 public:
  explicit DrawSkipper(const NumpyGenerator& generator) : begin_(generator), end_(generator) {}
  // Passes over NumpyGenerator::Shuffle of this many values; fewer than 2^32.
  void Shuffle(int64_t count);
  // Returns the generator as it is behind what was passed over.
  NumpyGenerator generator() const;

 private:
  static constexpr size_t kBuffer = 512;

  NumpyGenerator begin_, end_;  // before and behind the draws in the buffer
  std::array<uint32_t, kBuffer> draws_ = {};
  size_t used_ = kBuffer;
};

}  // namespace composer
