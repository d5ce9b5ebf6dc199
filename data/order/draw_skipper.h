// Shuffles as NumpyGenerator::Shuffle does, in a third of its time (about 3 ns a value), or passes over the random
// numbers that a shuffle would draw (about 1.4 ns a value): how many these are depends on their values, because some
// are rejected. So what comes after a long shuffle can be computed before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "data/order/numpy_generator.h"

namespace composer {

// A plain value, not thread-safe.
class DrawSkipper {
 public:
  explicit DrawSkipper(const NumpyGenerator& generator);
  // Passes over NumpyGenerator::Shuffle of this many values; fewer than 2^32.
  void Shuffle(int64_t count);
  // Shuffles; fewer than 2^32 values.
  void Shuffle(absl::Span<uint32_t> values);
  // Returns how many draws of Next32 were passed over.
  uint64_t draws() const { return consumed_ + used_; }
  // Returns the generator as it is behind what was passed over.
  NumpyGenerator generator() const;

 private:
  static constexpr size_t kBuffer = 1024;

  void Fill(size_t least);

  NumpyGenerator begin_;
  HalfStream stream_;  // behind the draws in the buffer
  std::array<uint32_t, kBuffer> draws_;
  size_t used_ = 0, filled_ = 0;
  uint64_t consumed_ = 0;  // draws that have left the buffer
};

}  // namespace composer
