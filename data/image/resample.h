// Cutting, scaling and blurring 8-bit images, to the bytes that PIL gives. Source: Pillow 11.3, by its results
// (tests/golden/images.json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "data/image/pixels.h"

namespace composer {

// Returns these rows and columns, which must lie in the image.
Pixels Crop(const PixelView& image, int64_t top, int64_t left, int64_t height, int64_t width);

// Scales to this size, at least 1 x 1, by a triangle as wide as the larger of the two pixel sizes (bilinear with
// antialiasing), first along the rows and then along the columns, with weights of 22 bits. PIL's Image.resize(…,
// BILINEAR) and torchvision's Resize of PIL images; torchvision's Resize of tensors differs by 1 at most.
Pixels Resize(const PixelView& image, int64_t height, int64_t width);

// Blurs with a Gaussian of this width, over side x side pixels (odd); beyond its edges the image is mirrored.
// torchvision's gaussian_blur, which differs by 1 where it rounds a half in float32.
Pixels GaussianBlur(const PixelView& image, int64_t side, double sigma);

}  // namespace composer
