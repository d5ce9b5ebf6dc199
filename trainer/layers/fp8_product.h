// Matrix products of tensors in 8-bit floating point.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace composer {

// A matrix as values / scale, in a type of 8 bits.
struct Fp8Matrix {
  at::Tensor values;   // [rows, columns], row after row
  at::Tensor inverse;  // 1 / scale, float32 [1]
};

// Returns the largest |x|, float32 [1] on x's device; NaN if x has one. Does not wait for the device.
at::Tensor Amax(const at::Tensor& x);

// Rounds a matrix to `type` (kFloat8_e4m3fn or kFloat8_e5m2) by the scale max(type) / (amax 2^margin); what is beyond
// the range becomes its end. If amax is not finite, all values are NaN. x is float32 or bfloat16, amax float32 [1].
Fp8Matrix ToFp8(const at::Tensor& x, at::ScalarType type, const at::Tensor& amax, int64_t margin);
Fp8Matrix Transposed(const Fp8Matrix& x);

// Returns a [M, K] times b [N, K] transposed, [M, N] of `type` (float32 or bfloat16), summed in float32. M, N and K are
// multiples of 16, and not both types e5m2. `fast` lets a GPU sum in fewer bits, which forward passes can bear.
// This is at::_scaled_mm, whose form on a CPU multiplies the values in float32.
at::Tensor ScaledProduct(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast);

// Returns why the device has no such product, in LibTorch's words; "" if it has one.
std::string WhyNoFp8(at::Device device);

}  // namespace composer
