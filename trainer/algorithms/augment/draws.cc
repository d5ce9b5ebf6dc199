// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/draws.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace composer {
namespace {

int64_t DrawCentre(int64_t image, int64_t size, bool uniform_sampling) {
  // Rounded down as Python's -size // 2.
  return uniform_sampling ? DrawInteger(-((size + 1) / 2), image + size / 2) : DrawInteger(0, image);
}

double DrawNormal(SampleRandom& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}

double DrawGamma(double alpha, SampleRandom& random) {
  if (alpha < 1) {
    const double smaller = std::pow(1 - random.Uniform(), 1 / alpha);
    return DrawGamma(alpha + 1, random) * smaller;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = DrawNormal(random), root = 1 + c * x, v = root * root * root;
    const double u = 1 - random.Uniform();
    if (v > 0 && std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

double DrawBeta(double alpha) {
  return at::_sample_dirichlet(torch::full({2}, alpha, torch::dtype(at::kDouble)))[0].item<double>();
}

std::vector<double> DrawDirichlet(double alpha, int64_t count, SampleRandom& random) {
  std::vector<double> parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(DrawGamma(alpha, random));
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  if (!(sum > 0)) {  // with a tiny alpha all may be too small for a double; one of them is the rest
    parts.assign(parts.size(), 0);
    parts[static_cast<size_t>(random.Below(count))] = 1;
    return parts;
  }
  for (double& part : parts) part /= sum;
  return parts;
}

int64_t DrawInteger(int64_t low, int64_t high) {
  return torch::randint(low, high, {1}, torch::dtype(at::kLong)).item<int64_t>();
}

ImageBox BoxAround(const ImageSize& image, const ImageSize& size, int64_t y, int64_t x) {
  const auto row = [&](int64_t at) { return std::clamp<int64_t>(at, 0, image.height); };
  const auto column = [&](int64_t at) { return std::clamp<int64_t>(at, 0, image.width); };
  const int64_t up = size.height / 2, aside = size.width / 2;
  return {row(y - up), column(x - aside), row(y + up), column(x + aside)};
}

ImageBox DrawBox(const ImageSize& image, const ImageSize& size, bool uniform_sampling) {
  const int64_t y = DrawCentre(image.height, size.height, uniform_sampling);
  const int64_t x = DrawCentre(image.width, size.width, uniform_sampling);
  return BoxAround(image, size, y, x);
}

}  // namespace composer
