// Welch's test: how probable is a difference of two means at least as large as the one found, if there were none?
// Without the assumption that both vary alike. Pure.
// Source: Welch 1947, doi:10.1093/biomet/34.1-2.28; the beta function: NIST DLMF 8.17.22.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace composer {

struct Moments {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;  // of the sample, with count - 1; 0 for fewer than two values
};
Moments MomentsOf(absl::Span<const double> values);

// Returns I_x(a, b), the regularised incomplete beta function; a, b > 0, 0 <= x <= 1.
double IncompleteBeta(double a, double b, double x);

// Returns the p-value of both tails. Needs at least two values of each: with fewer NaN. When none vary, 1 for equal
// means and 0 for others.
double WelchPValue(const Moments& one, const Moments& other);

}  // namespace composer
