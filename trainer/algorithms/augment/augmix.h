// AugMix mixes each training image x with `width` chains of operations on it:
//
//   (1 - m) x + m sum_i w_i chain_i(x),   w ~ Dirichlet(alpha), m ~ Beta(alpha, alpha)
//
// in float32, rounded down. A chain has `depth` operations, or with -1 one to three, drawn as RandAugment's
// (randaugment.h), which also says how it is added to the data.
//
// Source: Hendrycks et al. 2020, arXiv:1912.02781; mosaicml composer/algorithms/augmix/augmix.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/algorithms/augment/randaugment.h"

namespace composer {

struct AugMixOptions {
  int64_t severity = 3;  // 0 to 10
  int64_t depth = -1;    // of a chain; below 1: one to three, drawn
  int64_t width = 3;     // >= 1
  double alpha = 1;      // > 0
  AugmentationSet augmentation_set = AugmentationSet::kAll;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const AugMixOptions& options);

// Draws the chains for an image of this size, in the order of Composer's draws.
std::vector<std::vector<DrawnOperation>> DrawChains(const AugMixOptions& options, int64_t height, int64_t width,
                                                    DrawUniform uniform);

struct AugMixWeights {
  std::vector<float> chains;  // w
  float mixed = 0;            // m
};
// Returns the mixed image; `image` is uint8 [C, H, W] with 1 or 3 channels. As many weights as chains.
at::Tensor AugMixImage(const at::Tensor& image, const std::vector<std::vector<DrawnOperation>>& chains,
                       const AugMixWeights& weights);

// Composer's AugmentAndMixTransform. Throws StatusError for bad options.
SampleTransformPtr MakeAugMix(const AugMixOptions& options = {});

class AugMix final : public ImageAlgorithm {
 public:
  explicit AugMix(const AugMixOptions& options = {}) : ImageAlgorithm("AugMix", MakeAugMix(options)) {}
};

}  // namespace composer
