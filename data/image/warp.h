// Turning and bending 8-bit images, to the bytes that PIL gives. Source: Pillow 11.3 and torchvision 0.22, by their
// results (tests/golden/images.json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "data/image/pixels.h"

namespace composer {

enum class Sampling { kNearest, kBilinear };

// Maps the middle of pixel (x, y) of the result to (m0 x + m1 y + m2, m3 x + m4 y + m5) of the image; what is outside
// is 0. PIL's Image.transform(size, AFFINE, m, …).
Pixels Warp(const PixelView& image, const std::array<double, 6>& m, Sampling sampling = Sampling::kBilinear);
// The same for ((a0 x + a1 y + a2) / d, (a3 x + a4 y + a5) / d), d = a6 x + a7 y + 1. PIL's PERSPECTIVE.
Pixels WarpPerspective(const PixelView& image, const std::array<double, 8>& a, Sampling sampling);

// Turns around the middle, counter-clockwise. PIL's Image.rotate(degrees, …), but for multiples of 90 degrees, which
// PIL turns without sampling.
Pixels Rotate(const PixelView& image, double degrees, Sampling sampling = Sampling::kBilinear);

// Turned clockwise around the middle, sheared (degrees), scaled, then moved (pixels).
struct AffineChange {
  double degrees = 0, right = 0, down = 0, scale = 1, shear_x = 0, shear_y = 0;
};
// Returns the matrix of Warp. torchvision's affine().
std::array<double, 6> AffineMatrix(int64_t width, int64_t height, const AffineChange& change);

// x and y of four corners.
using Corners = std::array<std::pair<double, double>, 4>;
// Returns the coefficients of WarpPerspective that move the corners `from` of an image to the places `to`, no three of
// which lie on a line; rounded to float32, as torchvision's perspective() does.
std::array<double, 8> PerspectiveCoefficients(const Corners& from, const Corners& to);

}  // namespace composer
