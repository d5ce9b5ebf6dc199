// Transforms of images of bytes (`inputs`, uint8 [C, H, W], 1 or 3 channels), to the bytes that torchvision's
// transforms of PIL images give where they draw the same. Errors as in transforms.h. Threads: any number at a time.
// Source: torchvision 0.22's transforms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "trainer/data/transforms.h"

namespace composer {

// Decodes a JPEG or PNG file, a text of the sample, to `inputs`; drops the text, and `path`, which names it in errors.
struct DecodeImageOptions {
  std::string key = "image";
  int channels = 3;  // 1, 3 or 4
};
SampleTransformPtr MakeDecodeImage(const DecodeImageOptions& options = {});

// The shorter side becomes `size`, and the longer one in proportion, rounded down. Bilinear, antialiased.
SampleTransformPtr MakeResizeShorterSide(int64_t size);
SampleTransformPtr MakeResize(int64_t height, int64_t width);

// The middle of the image, which must be as large; halves of pixels go to the even side.
SampleTransformPtr MakeCenterCrop(int64_t size);

// A random part of the image, scaled to size x size. Ten times a part of the area and a ratio of the sides are drawn,
// until the box fits; then the largest box in the middle whose ratio is allowed.
struct RandomResizedCropOptions {
  int64_t size = 224;
  double least_scale = 0.08, most_scale = 1;           // of the area, 0 to 1
  double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;  // width / height, above 0
};
SampleTransformPtr MakeRandomResizedCrop(const RandomResizedCropOptions& options);

// Changes brightness, contrast, saturation and hue in random order, each by a factor from max(0, 1 - x) to 1 + x; the
// hue by up to `hue` of the circle, at most 0.5. 0 leaves one as it is.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
SampleTransformPtr MakeColorJitter(const ColorJitterOptions& options);

// Grey, with 1 or 3 equal channels. With 1 channel the probability must be 1.
SampleTransformPtr MakeGrayscale(int channels = 1, double probability = 1);

// float32, divided by 255: torchvision's ToTensor.
SampleTransformPtr MakeToFloat();

}  // namespace composer
