// RandAugment changes each training image by `depth` operations that are drawn with their strengths, one after the
// other: autocontrast, equalize, posterize, rotate, solarize, shear, translate, colour, contrast, brightness,
// sharpness.
//
// At FIT_START it adds itself to the transforms of the training data, before those that make numbers of bytes, so it
// needs data that comes sample by sample with images of bytes. Draws depend on (seed, epoch, sample).
//
// Source: Cubuk et al. 2019, arXiv:1909.13719; mosaicml composer/algorithms/randaugment/randaugment.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "data/image/augment.h"
#include "trainer/core/callback.h"
#include "trainer/data/transforms.h"

namespace composer {

struct RandAugmentOptions {
  int64_t severity = 9;  // 0 to 10
  int64_t depth = 2;     // >= 0
  AugmentationSet augmentation_set = AugmentationSet::kAll;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const RandAugmentOptions& options);

// Draws the operations for an image of this size, as many as `depth`.
std::vector<DrawnOperation> DrawOperations(int64_t severity, int64_t depth, AugmentationSet set, int64_t height,
                                           int64_t width, DrawUniform uniform);
// Returns the image, uint8 [C, H, W] with 1 or 3 channels, after these operations.
at::Tensor RandAugmentImage(const at::Tensor& image, const std::vector<DrawnOperation>& operations);

// Composer's RandAugmentTransform. Throws StatusError for bad options.
SampleTransformPtr MakeRandAugment(const RandAugmentOptions& options = {});

// An algorithm that adds a transform to the run's training images, at FIT_START, with kInvalidArgument that names the
// algorithm when the data takes none.
class ImageAlgorithm : public Algorithm {
 public:
  std::string name() const final { return name_; }
  EventSet events() const final { return {Event::kFitStart}; }
  bool Match(Event /*event*/, const State& /*state*/) const final { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) final;

 protected:
  ImageAlgorithm(std::string name, SampleTransformPtr transform)
      : name_(std::move(name)), transform_(std::move(transform)) {}

 private:
  const std::string name_;
  const SampleTransformPtr transform_;
};

class RandAugment final : public ImageAlgorithm {
 public:
  explicit RandAugment(const RandAugmentOptions& options = {})
      : ImageAlgorithm("RandAugment", MakeRandAugment(options)) {}
};

}  // namespace composer
