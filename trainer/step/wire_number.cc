// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/wire_number.h"

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

}  // namespace composer
