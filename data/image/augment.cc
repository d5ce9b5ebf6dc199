// SPDX-License-Identifier: Apache-2.0
#include "data/image/augment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "data/image/colour.h"
#include "data/image/warp.h"

namespace composer {
namespace {

constexpr int kOperations = 13, kSafeOperations = 9;

// Draws a level up to the severity, and returns this part of `most`.
double Level(double severity, double most, DrawUniform uniform) { return uniform(0.1, severity) * most / 10; }

// Rounded towards 0.
double WholeLevel(double severity, double most, DrawUniform uniform) {
  return static_cast<double>(static_cast<int64_t>(Level(severity, most, uniform)));
}

double WithSign(double level, DrawUniform uniform) { return uniform(0, 1) > 0.5 ? -level : level; }

double Factor(double severity, AugmentationSet set, DrawUniform uniform) {
  if (set == AugmentationSet::kOriginal) return Level(severity, 1.8, uniform) + 0.1;
  return uniform(0, 1) > 0.5 ? uniform(1, severity) : uniform(1 - 0.09 * severity, 1);
}

double Strength(ImageOperation operation, AugmentationSet set, double severity, double height, double width,
                DrawUniform uniform) {
  switch (operation) {
    case ImageOperation::kAutocontrast:
    case ImageOperation::kEqualize:
      return 0;
    case ImageOperation::kPosterize:
      return 4 - WholeLevel(severity, 4, uniform);
    case ImageOperation::kRotate:
      return WithSign(WholeLevel(severity, 30, uniform), uniform);
    case ImageOperation::kSolarize:
      return 256 - WholeLevel(severity, 256, uniform);
    case ImageOperation::kShearX:
    case ImageOperation::kShearY:
      return WithSign(Level(severity, 0.3, uniform), uniform);
    case ImageOperation::kTranslateX:
      return WithSign(WholeLevel(severity, width / 3, uniform), uniform);
    case ImageOperation::kTranslateY:
      return WithSign(WholeLevel(severity, height / 3, uniform), uniform);
    case ImageOperation::kBrightness: {
      const double factor = Factor(severity, set, uniform);
      return set != AugmentationSet::kOriginal && factor > 1 ? factor * .75 : factor;
    }
    case ImageOperation::kColour:
    case ImageOperation::kContrast:
    case ImageOperation::kSharpness:
      break;
  }
  return Factor(severity, set, uniform);
}

}  // namespace

Pixels Apply(const DrawnOperation& drawn, const PixelView& image) {
  const double strength = drawn.strength;
  switch (drawn.operation) {
    case ImageOperation::kAutocontrast:
      return Autocontrast(image);
    case ImageOperation::kEqualize:
      return Equalize(image);
    case ImageOperation::kPosterize:
      return Posterize(image, static_cast<int>(strength));
    case ImageOperation::kRotate:
      return Rotate(image, strength);
    case ImageOperation::kSolarize:
      return Solarize(image, static_cast<int>(strength));
    case ImageOperation::kShearX:
      return Warp(image, {1, strength, 0, 0, 1, 0});
    case ImageOperation::kShearY:
      return Warp(image, {1, 0, 0, strength, 1, 0});
    case ImageOperation::kTranslateX:
      return Warp(image, {1, 0, strength, 0, 1, 0});
    case ImageOperation::kTranslateY:
      return Warp(image, {1, 0, 0, 0, 1, strength});
    case ImageOperation::kColour:
      return AdjustColour(image, strength);
    case ImageOperation::kContrast:
      return AdjustContrast(image, strength);
    case ImageOperation::kBrightness:
      return AdjustBrightness(image, strength);
    case ImageOperation::kSharpness:
      break;
  }
  return AdjustSharpness(image, strength);
}

absl::StatusOr<AugmentationSet> ParseAugmentationSet(absl::string_view name) {
  if (name == "all") return AugmentationSet::kAll;
  if (name == "safe") return AugmentationSet::kSafe;
  if (name == "original") return AugmentationSet::kOriginal;
  return absl::InvalidArgumentError(absl::StrCat("augmentation_set: must be all, safe or original, got `", name, "`"));
}

ImageOperation DrawOperation(AugmentationSet set, DrawUniform uniform) {
  const int count = set == AugmentationSet::kSafe ? kSafeOperations : kOperations;
  return static_cast<ImageOperation>(std::min(static_cast<int>(uniform(0, count)), count - 1));
}

DrawnOperation DrawStrength(ImageOperation operation, AugmentationSet set, int64_t severity, int64_t height,
                            int64_t width, DrawUniform uniform) {
  return {operation, Strength(operation, set, static_cast<double>(severity), static_cast<double>(height),
                              static_cast<double>(width), uniform)};
}

}  // namespace composer
