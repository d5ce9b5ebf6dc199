// SPDX-License-Identifier: Apache-2.0
#include "data/image/warp.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

namespace composer {
namespace {

double Between(double a, double b, double part) { return a + (b - a) * part; }

// Writes what lies at (at_x, at_y) of the image, in between its pixels' centres.
void Blend(const PixelView& image, double at_x, double at_y, uint8_t* to) {
  at_x -= 0.5;
  at_y -= 0.5;
  const double left = std::floor(at_x), top = std::floor(at_y);
  const auto x0 = static_cast<int64_t>(left), y0 = static_cast<int64_t>(top);
  const int64_t near = std::max<int64_t>(x0, 0) * image.channels;
  const int64_t far = std::min(x0 + 1, image.width - 1) * image.channels;
  const uint8_t* upper = image.row(std::max<int64_t>(y0, 0));
  const uint8_t* lower = image.row(std::min(y0 + 1, image.height - 1));
  for (int64_t c = 0; c < image.channels; ++c) {
    const double above = Between(upper[near + c], upper[far + c], at_x - left);
    const double below = Between(lower[near + c], lower[far + c], at_x - left);
    to[c] = static_cast<uint8_t>(Between(above, below, at_y - top));
  }
}

void CopyPixel(const PixelView& image, int64_t x, int64_t y, uint8_t* to) {
  std::memcpy(to, image.row(y) + x * image.channels, static_cast<size_t>(image.channels));
}

// where(column, row) gives the place in the image of a place in the result.
template <typename Where>
Pixels MapPixels(const PixelView& image, Sampling sampling, Where where) {
  Pixels result(image.height, image.width, image.channels);
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  uint8_t* to = result.bytes.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x, to += image.channels) {
      const auto [at_x, at_y] = where(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      if (!(at_x >= 0 && at_x < width && at_y >= 0 && at_y < height)) continue;
      if (sampling == Sampling::kBilinear) {
        Blend(image, at_x, at_y, to);
      } else {
        CopyPixel(image, static_cast<int64_t>(at_x), static_cast<int64_t>(at_y), to);
      }
    }
  }
  return result;
}

// PIL's nearest pixels of affine maps: places are whole numbers of 1 / 65536, added up along a row.
Pixels NearestAffine(const PixelView& image, const std::array<double, 6>& m) {
  const auto fixed = [](double value) { return static_cast<int64_t>(std::floor(value * 65536.0 + 0.5)); };
  Pixels result(image.height, image.width, image.channels);
  const int64_t dx = fixed(m[0]), dy = fixed(m[3]);
  int64_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  uint8_t* to = result.bytes.data();
  for (int64_t y = 0; y < image.height; ++y, row_x += fixed(m[1]), row_y += fixed(m[4])) {
    int64_t at_x = row_x, at_y = row_y;
    for (int64_t x = 0; x < image.width; ++x, to += image.channels, at_x += dx, at_y += dy) {
      const int64_t from_x = at_x >> 16, from_y = at_y >> 16;
      if (from_x >= 0 && from_x < image.width && from_y >= 0 && from_y < image.height)
        CopyPixel(image, from_x, from_y, to);
    }
  }
  return result;
}

// PIL's nearest pixels of maps that keep rows and columns.
Pixels NearestScale(const PixelView& image, const std::array<double, 6>& m) {
  const auto places = [](double at, double step, int64_t count, int64_t size) {
    std::vector<int64_t> from;
    for (int64_t i = 0; i < count; ++i, at += step) {
      const int64_t place = at < 0 ? -1 : static_cast<int64_t>(at);
      from.push_back(place < size ? place : -1);
    }
    return from;
  };
  const std::vector<int64_t> columns = places(m[2] + m[0] * 0.5, m[0], image.width, image.width);
  const std::vector<int64_t> rows = places(m[5] + m[4] * 0.5, m[4], image.height, image.height);
  Pixels result(image.height, image.width, image.channels);
  uint8_t* to = result.bytes.data();
  for (const int64_t y : rows) {
    for (const int64_t x : columns) {
      if (x >= 0 && y >= 0) CopyPixel(image, x, y, to);
      to += image.channels;
    }
  }
  return result;
}

}  // namespace

Pixels Warp(const PixelView& image, const std::array<double, 6>& m, Sampling sampling) {
  if (sampling == Sampling::kNearest) return m[1] == 0 && m[3] == 0 ? NearestScale(image, m) : NearestAffine(image, m);
  return MapPixels(image, sampling, [&](double x, double y) {
    return std::pair(m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]);
  });
}

Pixels WarpPerspective(const PixelView& image, const std::array<double, 8>& a, Sampling sampling) {
  return MapPixels(image, sampling, [&](double x, double y) {
    const double depth = a[6] * x + a[7] * y + 1;
    return std::pair((a[0] * x + a[1] * y + a[2]) / depth, (a[3] * x + a[4] * y + a[5]) / depth);
  });
}

std::array<double, 6> AffineMatrix(int64_t width, int64_t height, const AffineChange& change) {
  const double degree = std::numbers::pi / 180.0;
  const double turn = change.degrees * degree, sx = change.shear_x * degree, sy = change.shear_y * degree;
  const double a = std::cos(turn - sy) / std::cos(sy);
  const double b = -std::cos(turn - sy) * std::tan(sx) / std::cos(sy) - std::sin(turn);
  const double c = std::sin(turn - sy) / std::cos(sy);
  const double d = -std::sin(turn - sy) * std::tan(sx) / std::cos(sy) + std::cos(turn);
  std::array<double, 6> m = {d, -b, 0, -c, a, 0};
  for (double& each : m) each /= change.scale;
  const double x = static_cast<double>(width) * 0.5, y = static_cast<double>(height) * 0.5;
  m[2] += m[0] * (-x - change.right) + m[1] * (-y - change.down);
  m[5] += m[3] * (-x - change.right) + m[4] * (-y - change.down);
  m[2] += x;
  m[5] += y;
  return m;
}

std::array<double, 8> PerspectiveCoefficients(const Corners& from, const Corners& to) {
  double rows[8][9];
  for (size_t i = 0; i < 4; ++i) {
    const auto [x, y] = to[i];
    const auto [u, v] = from[i];
    const double first[9] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u}, second[9] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
    std::copy_n(first, 9, rows[2 * i]);
    std::copy_n(second, 9, rows[2 * i + 1]);
  }
  for (size_t column = 0; column < 8; ++column) {  // Gauss and Jordan, with the largest pivot
    size_t best = column;
    for (size_t i = column; i < 8; ++i) {
      if (std::abs(rows[i][column]) > std::abs(rows[best][column])) best = i;
    }
    std::swap_ranges(rows[column], rows[column] + 9, rows[best]);
    for (size_t i = 0; i < 8; ++i) {
      const double factor = rows[i][column] / rows[column][column];
      for (size_t k = column; i != column && k < 9; ++k) rows[i][k] -= factor * rows[column][k];
    }
  }
  std::array<double, 8> found{};
  for (size_t i = 0; i < 8; ++i) found[i] = static_cast<float>(rows[i][8] / rows[i][i]);
  return found;
}

Pixels Rotate(const PixelView& image, double degrees, Sampling sampling) {
  if (degrees == 0) return Pixels(image);
  double turned = std::fmod(degrees, 360.0);  // Python's % is not negative, and rounds
  if (turned < 0) turned += 360.0;
  const double angle = -(turned * (std::numbers::pi / 180.0));
  const auto rounded = [](double value) {  // to 15 decimals, as Python's round
    char text[40];
    std::snprintf(text, sizeof(text), "%.15f", value);
    return std::strtod(text, nullptr);
  };
  const double x = static_cast<double>(image.width) / 2, y = static_cast<double>(image.height) / 2;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  return Warp(image, {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y},
              sampling);
}

}  // namespace composer
