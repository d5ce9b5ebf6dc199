// SPDX-License-Identifier: Apache-2.0
#include "launcher/speedrun/welch.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace composer {
namespace {

// The continued fraction by Lentz's method; it converges for x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_0 = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_0(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / away_from_0(1 + term * d);
      c = away_from_0(1 + term / c);
      factor = c * d;
      value *= factor;
    }
    if (std::abs(factor - 1) < 1e-15) break;
  }
  return value;
}

}  // namespace

Moments MomentsOf(absl::Span<const double> values) {
  Moments moments;
  moments.count = values.size();
  if (values.empty()) return moments;
  const auto count = static_cast<double>(values.size());
  moments.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - moments.mean) * (value - moments.mean);
  if (values.size() > 1) moments.deviation = std::sqrt(squares / (count - 1));
  return moments;
}

double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - IncompleteBeta(b, a, 1 - x);
  const double front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(front) * BetaFraction(a, b, x) / a;
}

double WelchPValue(const Moments& one, const Moments& other) {
  if (one.count < 2 || other.count < 2) return std::numeric_limits<double>::quiet_NaN();
  const auto n = static_cast<double>(one.count), m = static_cast<double>(other.count);
  const double a = one.deviation * one.deviation / n, b = other.deviation * other.deviation / m;
  if (a + b == 0) return one.mean == other.mean ? 1 : 0;
  const double t = (one.mean - other.mean) / std::sqrt(a + b);
  const double freedom = (a + b) * (a + b) / (a * a / (n - 1) + b * b / (m - 1));
  return IncompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

}  // namespace composer
