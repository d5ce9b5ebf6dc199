// Transforms that change the tones of images, each with a probability. Errors as in transforms.h. Threads: any number
// at a time.
// Source: torchvision 0.22's transforms (RandomInvert, RandomPosterize, RandomSolarize, RandomAdjustSharpness,
// RandomAutocontrast, RandomEqualize, RandomErasing).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/image/augment.h"
#include "trainer/data/images/warp_transforms.h"

namespace composer {

// Of images of bytes, by one operation of data/image/augment.h; `name` is for messages. Solarizing from 0 on inverts.
SampleTransformPtr MakeRandomTone(const char* name, const DrawnOperation& operation, double probability = 0.5);

// Sets a random box of any image [C, H, W] to `value`. Ten times a part of the area and a ratio height / width are
// drawn, until the box is smaller than the image; then nothing is erased.
struct RandomErasingOptions {
  double probability = 0.5;
  NumberRange scale = {0.02, 0.33};  // of the area, up to 1
  NumberRange ratio = {0.3, 3.3};    // above 0
  double value = 0;
};
SampleTransformPtr MakeRandomErasing(const RandomErasingOptions& options);

// Mirrors any image, top to bottom.
SampleTransformPtr MakeRandomVerticalFlip(double probability = 0.5);

// Puts a frame of `value` around any image.
SampleTransformPtr MakePad(int64_t padding, double value = 0);

}  // namespace composer
