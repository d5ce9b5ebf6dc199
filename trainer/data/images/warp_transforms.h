// Transforms that turn, bend and frame images of bytes (`inputs`, uint8 [C, H, W], 1 or 3 channels), to the bytes that
// torchvision's transforms of PIL images give where they draw the same. What comes from outside the image is 0. Errors
// as in transforms.h. Threads: any number at a time.
// Source: torchvision 0.22's transforms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/image/warp.h"
#include "trainer/data/transforms.h"

namespace composer {

struct NumberRange {
  double least = 0, most = 0;
};

// Turns counter-clockwise by an angle of this range.
SampleTransformPtr MakeRandomRotation(NumberRange degrees, Sampling sampling = Sampling::kNearest);

struct RandomAffineOptions {
  NumberRange degrees;
  double translate_x = 0, translate_y = 0;  // at most this part of the width and height, 0 to 1
  NumberRange scale = {1, 1};               // above 0
  NumberRange shear_x, shear_y;             // degrees, above -90 and below 90
  Sampling sampling = Sampling::kNearest;
};
SampleTransformPtr MakeRandomAffine(const RandomAffineOptions& options);

// Moves each corner inwards by up to `distortion` (0 to 1) of half the width and height.
SampleTransformPtr MakeRandomPerspective(double distortion = 0.5, double probability = 0.5,
                                         Sampling sampling = Sampling::kBilinear);

// Blurs over side x side pixels (odd), by a width of this range, above 0. The image must be larger than half a side.
SampleTransformPtr MakeGaussianBlur(int64_t side, NumberRange sigma = {0.1, 2});

}  // namespace composer
