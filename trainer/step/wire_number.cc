// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/wire_number.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace composer {
namespace {

constexpr double kHighestUnit = 0x1p44;
constexpr double kLowestUnit = 0x1p-100;
constexpr double kLimbRange = 0x1p12;

}  // namespace

void WireNumber::Put(double number, float* out) {
  std::fill_n(out, kLength, 0.0F);
  if (number == 0) return;
  if (!(std::abs(number) < kHighestUnit * kLimbRange)) {
    out[kLimbs] = static_cast<float>(number);
    return;
  }
  // Each remainder is exact, since it has a part of the number's bits.
  double rest = number, unit = kHighestUnit;
  for (int i = 0; i < kLimbs && rest != 0; ++i, unit /= kLimbRange) {
    const double limb = std::trunc(rest / unit);
    rest -= limb * unit;
    out[i] = static_cast<float>(limb);
  }
}

double WireNumber::Get(const float* in) {
  double number = 0, unit = kLowestUnit;
  for (int i = kLimbs; i-- > 0; unit *= kLimbRange) number += static_cast<double>(in[i]) * unit;
  return number + static_cast<double>(in[kLimbs]);
}

at::Tensor WireNumber::Rates() {
  at::Tensor rates = at::empty({kLimbs}, at::kDouble);
  double rate = 1 / kHighestUnit;
  for (int i = 0; i < kLimbs; ++i, rate *= kLimbRange) rates.mutable_data_ptr<double>()[i] = rate;
  return rates;
}

at::Tensor WireNumber::PutAll(const at::Tensor& numbers, const at::Tensor& rates) {
  const at::NoGradGuard no_grad;
  const at::Tensor column = numbers.unsqueeze(1);
  const at::Tensor fits = column.abs() < kHighestUnit * kLimbRange;  // false for NaN
  // A limb is what its units count beyond those of the limbs before it; all of these numbers are exact.
  const at::Tensor counts = (column * rates).trunc_();
  at::Tensor limbs = counts.clone();
  limbs.narrow(1, 1, kLimbs - 1).sub_(counts.narrow(1, 0, kLimbs - 1), kLimbRange);
  const at::Tensor zero = at::zeros({}, numbers.options());
  return at::cat({at::where(fits, limbs, zero), at::where(fits, zero, column)}, 1).to(at::kFloat);
}

}  // namespace composer
