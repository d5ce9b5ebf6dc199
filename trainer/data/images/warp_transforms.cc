// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/images/warp_transforms.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "data/image/resample.h"
#include "trainer/data/images/of_pixels.h"

namespace composer {
namespace {

double DrawFrom(NumberRange range, SampleRandom& random) {
  return range.least == range.most ? range.least : random.Uniform(range.least, range.most);
}

// A whole number from `first` to `last`.
double DrawWhole(int64_t first, int64_t last, SampleRandom& random) {
  return static_cast<double>(first + random.Below(last - first + 1));
}

void CheckRange(const char* who, NumberRange range, double above) {
  TORCH_CHECK_VALUE(range.least <= range.most && range.least > above, who, ": must be two rising numbers above ", above,
                    ", got ", range.least, " and ", range.most);
}

AffineChange DrawAffine(const PixelView& image, const RandomAffineOptions& options, SampleRandom& random) {
  AffineChange change;
  change.degrees = DrawFrom(options.degrees, random);
  const double right = options.translate_x * static_cast<double>(image.width);
  const double down = options.translate_y * static_cast<double>(image.height);
  change.right = std::nearbyint(DrawFrom({-right, right}, random));
  change.down = std::nearbyint(DrawFrom({-down, down}, random));
  change.scale = DrawFrom(options.scale, random);
  change.shear_x = DrawFrom(options.shear_x, random);
  change.shear_y = DrawFrom(options.shear_y, random);
  return change;
}

Pixels Bend(const PixelView& image, double distortion, Sampling sampling, SampleRandom& random) {
  const int64_t right = image.width - 1, bottom = image.height - 1;
  const auto x = static_cast<int64_t>(distortion * static_cast<double>(image.width / 2));
  const auto y = static_cast<int64_t>(distortion * static_cast<double>(image.height / 2));
  Corners to;
  to[0].first = DrawWhole(0, x, random);
  to[0].second = DrawWhole(0, y, random);
  to[1].first = DrawWhole(right - x, right, random);
  to[1].second = DrawWhole(0, y, random);
  to[2].first = DrawWhole(right - x, right, random);
  to[2].second = DrawWhole(bottom - y, bottom, random);
  to[3].first = DrawWhole(0, x, random);
  to[3].second = DrawWhole(bottom - y, bottom, random);
  const auto far_x = static_cast<double>(right), far_y = static_cast<double>(bottom);
  const Corners from = {{{0, 0}, {far_x, 0}, {far_x, far_y}, {0, far_y}}};
  return WarpPerspective(image, PerspectiveCoefficients(from, to), sampling);
}

}  // namespace

SampleTransformPtr MakeRandomRotation(NumberRange degrees, Sampling sampling) {
  CheckRange("random_rotation: degrees", degrees, -1e6);
  return OfPixels("random_rotation", [=](const PixelView& image, SampleRandom& random) {
    return Rotate(image, DrawFrom(degrees, random), sampling);
  });
}

SampleTransformPtr MakeRandomAffine(const RandomAffineOptions& options) {
  CheckRange("random_affine: degrees", options.degrees, -1e6);
  CheckRange("random_affine: scale", options.scale, 0);
  for (const NumberRange shear : {options.shear_x, options.shear_y}) {
    CheckRange("random_affine: shear", shear, -90);
    TORCH_CHECK_VALUE(shear.most < 90, "random_affine: shear: must be below 90, got ", shear.most);
  }
  TORCH_CHECK_VALUE(std::min(options.translate_x, options.translate_y) >= 0 &&
                        std::max(options.translate_x, options.translate_y) <= 1,
                    "random_affine: translate: must be from 0 to 1");
  return OfPixels("random_affine", [=](const PixelView& image, SampleRandom& random) {
    return Warp(image, AffineMatrix(image.width, image.height, DrawAffine(image, options, random)), options.sampling);
  });
}

SampleTransformPtr MakeRandomPerspective(double distortion, double probability, Sampling sampling) {
  TORCH_CHECK_VALUE(distortion >= 0 && distortion <= 1 && probability >= 0 && probability <= 1,
                    "random_perspective: distortion and probability: must be from 0 to 1");
  return OfPixels("random_perspective", [=](const PixelView& image, SampleRandom& random) {
    // The corners of an image of two rows or columns may meet.
    TORCH_CHECK_VALUE(image.width > 2 && image.height > 2, "random_perspective: the image is ", image.height, " x ",
                      image.width, "; 3 x 3 is the least");
    return random.Chance(probability) ? Bend(image, distortion, sampling, random) : Pixels(image);
  });
}

SampleTransformPtr MakeGaussianBlur(int64_t side, NumberRange sigma) {
  TORCH_CHECK_VALUE(side > 0 && side % 2 == 1, "gaussian_blur: kernel_size: must be odd, got ", side);
  CheckRange("gaussian_blur: sigma", sigma, 0);
  return OfPixels("gaussian_blur", [=](const PixelView& image, SampleRandom& random) {
    TORCH_CHECK_VALUE(side / 2 < image.height && side / 2 < image.width, "gaussian_blur: kernel_size ", side,
                      " is too large for the image, ", image.height, " x ", image.width);
    return GaussianBlur(image, side, DrawFrom(sigma, random));
  });
}

}  // namespace composer
