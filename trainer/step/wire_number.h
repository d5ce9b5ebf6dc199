// A WireNumber is a double on its way through a float32 sum over ranks: fixed-point limbs of 12 bits, so that the sum
// over up to 4,096 ranks is exact, the same in any order. One rank's number arrives unchanged.
//
//   limb i counts 2^(44 - 12 i), i = 0 … 12: bits from 2^56 down to 2^-100; what lies below is dropped
//   the last float is 0, or the number itself as a float if it is NaN, infinite or at least 2^56
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace composer {

struct WireNumber {
  static constexpr int kLimbs = 13;
  static constexpr int kLength = kLimbs + 1;  // floats
  // `out` and `in` have kLength elements.
  static void Put(double number, float* out);
  static double Get(const float* in);
  // Put of several numbers, [n] double, on whichever device they are, without waiting for it: [n, kLength] float32.
  // `rates` is Rates() there.
  static at::Tensor PutAll(const at::Tensor& numbers, const at::Tensor& rates);
  // Returns how many units of each limb are in 1: [kLimbs] double, on the CPU.
  static at::Tensor Rates();
};

}  // namespace composer
