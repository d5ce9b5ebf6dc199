// The operations of AugMix and RandAugment, and how their strengths are drawn. Images have 1 or 3 channels.
// Source: mosaicml composer/algorithms/utils/augmentation_primitives.py; Hendrycks et al. 2020, arXiv:1912.02781.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image/pixels.h"

namespace composer {

// In the order of Composer's sets.
enum class ImageOperation {
  kAutocontrast,
  kEqualize,
  kPosterize,
  kRotate,
  kSolarize,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kColour,
  kContrast,
  kBrightness,
  kSharpness,
};

// An operation with its strength: bits of posterize, degrees of rotate, the threshold of solarize, pixels of translate,
// the slope of shear, the factor of the last four.
struct DrawnOperation {
  ImageOperation operation = ImageOperation::kAutocontrast;
  double strength = 0;
};
Pixels Apply(const DrawnOperation& drawn, const PixelView& image);

enum class AugmentationSet {
  kAll,
  kSafe,      // without the last four, which the test sets ImageNet-C and CIFAR10-C are made with
  kOriginal,  // the last four are drawn as in AugMix's own code
};
// "all", "safe", "original"; kInvalidArgument for another.
absl::StatusOr<AugmentationSet> ParseAugmentationSet(absl::string_view name);

// Draws uniformly from [low, high); also where high < low, as numpy does.
using DrawUniform = absl::FunctionRef<double(double low, double high)>;

// Draws one of the set's operations: uniform(0, number of operations), rounded down.
ImageOperation DrawOperation(AugmentationSet set, DrawUniform uniform);
// Draws the strength of an operation on an image of this size. severity: 0 to 10. Makes the same draws in the same
// order as Composer.
DrawnOperation DrawStrength(ImageOperation operation, AugmentationSet set, int64_t severity, int64_t height,
                            int64_t width, DrawUniform uniform);

}  // namespace composer
