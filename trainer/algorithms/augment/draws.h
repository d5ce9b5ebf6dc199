// What the algorithms of this room draw, and the boxes that they cut into images. Draws are from torch's generator,
// which the engine seeds by rank, batch and event (core/random.h). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

// Draws from Beta(alpha, alpha), alpha > 0: between 0 and 1.
double DrawBeta(double alpha);
// Draws an integer from low to high - 1.
int64_t DrawInteger(int64_t low, int64_t high);

// Rows [top, bottom) and columns [left, right).
struct ImageBox {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  int64_t area() const { return (bottom - top) * (right - left); }
  bool operator==(const ImageBox&) const = default;
};

// The size of images, or of boxes in them.
struct ImageSize {
  int64_t height = 0, width = 0;
};

// Returns the box of `size` around (y, x), without what lies outside the image. Odd sizes lose a row and a column.
ImageBox BoxAround(const ImageSize& image, const ImageSize& size, int64_t y, int64_t x);

// Draws a centre in the image and returns its box. With uniform_sampling centres lie up to half a box outside, so that
// each pixel is cut with the same probability.
ImageBox DrawBox(const ImageSize& image, const ImageSize& size, bool uniform_sampling);

}  // namespace composer
