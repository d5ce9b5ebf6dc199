// Cutting, scaling and warping 8-bit images, to the bytes that PIL gives. Source: Pillow 11.3, by its results
// (tests/golden/images.json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "data/image/pixels.h"

namespace composer {

// Returns these rows and columns, which must lie in the image.
Pixels Crop(const PixelView& image, int64_t top, int64_t left, int64_t height, int64_t width);

// Scales to this size, at least 1 x 1, by a triangle as wide as the larger of the two pixel sizes (bilinear with
// antialiasing), first along the rows and then along the columns, with weights of 22 bits. PIL's Image.resize(…,
// BILINEAR) and torchvision's Resize of PIL images; torchvision's Resize of tensors differs by 1 at most.
Pixels Resize(const PixelView& image, int64_t height, int64_t width);

// Maps the middle of pixel (x, y) of the result to (m0 x + m1 y + m2, m3 x + m4 y + m5) and interpolates there
// bilinearly; what is outside is 0. PIL's Image.transform(size, AFFINE, m, BILINEAR).
Pixels Warp(const PixelView& image, const std::array<double, 6>& m);

// Turns around the middle, counter-clockwise. PIL's Image.rotate(degrees, BILINEAR), -90 < degrees < 90.
Pixels Rotate(const PixelView& image, double degrees);

}  // namespace composer
