// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/fp8_product.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <limits>

namespace composer {
namespace {

// A smaller amax, as that of zeros, would give a scale beyond float32.
constexpr float kSmallestAmax = 1e-30F;

double LargestOf(at::ScalarType type) { return type == at::kFloat8_e5m2 ? 57344 : 448; }

}  // namespace

at::Tensor Amax(const at::Tensor& x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x.numel() == 0) return at::zeros({1}, x.options().dtype(at::kFloat));
  return at::linalg_vector_norm(x, kInfinity).to(at::kFloat).view({1});
}

Fp8Matrix ToFp8(const at::Tensor& x, at::ScalarType type, const at::Tensor& amax, int64_t margin) {
  const double largest = LargestOf(type);
  const at::Tensor inverse = amax.clamp_min(kSmallestAmax) * (static_cast<double>(int64_t{1} << margin) / largest);
  // A product of a bfloat16 matrix and a float32 vector is float32.
  at::Tensor scaled = x * inverse.reciprocal();
  return {scaled.clamp_(-largest, largest).to(type), inverse};
}

Fp8Matrix Transposed(const Fp8Matrix& x) { return {x.values.t().contiguous(), x.inverse}; }

at::Tensor ScaledProduct(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast) {
  return at::_scaled_mm(a.values, b.values.t(), a.inverse, b.inverse, /*bias=*/{}, /*scale_result=*/{}, type, fast);
}

std::string WhyNoFp8(at::Device device) {
  try {
    const at::Tensor ones = at::ones({16, 16}, at::TensorOptions().dtype(at::kFloat).device(device));
    const Fp8Matrix matrix = ToFp8(ones, at::kFloat8_e4m3fn, ones.view(-1).slice(0, 0, 1), 0);
    ScaledProduct(matrix, matrix, at::kBFloat16, /*fast=*/true);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    return what.substr(0, what.find('\n'));
  }
  return "";
}

}  // namespace composer
