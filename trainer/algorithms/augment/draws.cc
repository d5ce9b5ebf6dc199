// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/draws.h"

#include <torch/torch.h>

#include <algorithm>

namespace composer {
namespace {

int64_t DrawCentre(int64_t image, int64_t size, bool uniform_sampling) {
  // Rounded down as Python's -size // 2.
  return uniform_sampling ? DrawInteger(-((size + 1) / 2), image + size / 2) : DrawInteger(0, image);
}

}  // namespace

double DrawBeta(double alpha) {
  return at::_sample_dirichlet(torch::full({2}, alpha, torch::dtype(at::kDouble)))[0].item<double>();
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
