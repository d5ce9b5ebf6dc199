// Shuffles as NumpyGenerator::Shuffle does, in a third of its time (about 3 ns a value), or passes over the random
// numbers that a shuffle would draw (0.7 ns a value with AVX-512, else 2): how many these are depends on their values,
// because some are rejected. So what comes after a long shuffle can be computed before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "data/order/half_stream.h"
#include "data/order/numpy_generator.h"

namespace composer {

// A plain value, not thread-safe.
class DrawSkipper {
 public:
  explicit DrawSkipper(const NumpyGenerator& generator, bool avx512 = HasAvx512());
  // Passes over NumpyGenerator::Shuffle of this many values; fewer than 2^32.
  void Shuffle(int64_t count);
  // Shuffles; fewer than 2^32 values.
  void Shuffle(absl::Span<uint32_t> values);
  // Returns how many draws of Next32 were passed over.
  uint64_t draws() const { return consumed_ + used_; }
  // Returns the generator as it is behind what was passed over.
  NumpyGenerator generator() const;

 private:
  static constexpr size_t kFill = 512;  // draws that are made at once, when fewer than 64 are left

  void Fill();

  NumpyGenerator begin_;
  bool avx512_;
  HalfStream stream_;  // behind the draws in the buffer
  std::array<uint32_t, kFill + 64> draws_;
  size_t used_ = 0, filled_ = 0;
  uint64_t consumed_ = 0;  // draws that have left the buffer
};

}  // namespace composer
