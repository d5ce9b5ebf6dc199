// SPDX-License-Identifier: Apache-2.0
#include "data/image/resample.h"

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

constexpr int kBits = 22;  // of a weight: 8 for the pixel and 2 for the sum fit beside it into 32

// The weights of one axis: pixel i of the result is the sum of weights[i * most + k] * pixel first[i] + k.
struct Weights {
  std::vector<int64_t> first, count;
  int64_t most = 0;
  std::vector<int32_t> weights;
};

Weights TriangleWeights(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), radius = std::max(scale, 1.0);
  Weights result;
  result.most = static_cast<int64_t>(std::ceil(radius)) * 2 + 1;
  result.weights.resize(static_cast<size_t>(result.most * to));
  std::vector<double> row(static_cast<size_t>(result.most));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - radius + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(centre + radius + 0.5));
    double sum = 0;
    for (int64_t k = 0; k < end - first; ++k) {
      const double distance = std::abs((static_cast<double>(k + first) - centre + 0.5) * (1.0 / radius));
      row[k] = distance < 1 ? 1 - distance : 0;
      sum += row[k];
    }
    for (int64_t k = 0; k < end - first; ++k) {
      const double weight = sum == 0 ? row[k] : row[k] / sum;
      result.weights[i * result.most + k] = static_cast<int32_t>(0.5 + weight * (1 << kBits));
    }
    result.first.push_back(first);
    result.count.push_back(end - first);
  }
  return result;
}

uint8_t Rounded(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255)); }

template <int kChannels>
void ScaleRow(const uint8_t* from, const Weights& w, int64_t width, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x) {
    int32_t sums[kChannels];
    for (int32_t& sum : sums) sum = 1 << (kBits - 1);
    const uint8_t* pixel = from + w.first[x] * kChannels;
    const int32_t* weights = w.weights.data() + x * w.most;
    for (int64_t k = 0; k < w.count[x]; ++k, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weights[k];
    }
    for (int c = 0; c < kChannels; ++c) *to++ = Rounded(sums[c]);
  }
}

Pixels ScaleRows(const PixelView& image, int64_t width) {
  const Weights w = TriangleWeights(image.width, width);
  Pixels result(image.height, width, image.channels);
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* to = result.row(y);
    if (image.channels == 1) ScaleRow<1>(image.row(y), w, width, to);
    if (image.channels == 2) ScaleRow<2>(image.row(y), w, width, to);
    if (image.channels == 3) ScaleRow<3>(image.row(y), w, width, to);
    if (image.channels == 4) ScaleRow<4>(image.row(y), w, width, to);
  }
  return result;
}

// A row of the result is a sum of whole rows, which compilers make vectors of.
Pixels ScaleColumns(const PixelView& image, int64_t height) {
  const Weights w = TriangleWeights(image.height, height);
  Pixels result(height, image.width, image.channels);
  std::vector<int32_t> sums(static_cast<size_t>(image.stride()));
  for (int64_t y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (int64_t k = 0; k < w.count[y]; ++k) {
      const uint8_t* from = image.row(w.first[y] + k);
      const int32_t weight = w.weights[y * w.most + k];
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += from[i] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), Rounded);
  }
  return result;
}

double Between(double a, double b, double part) { return a + (b - a) * part; }

}  // namespace

Pixels Crop(const PixelView& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Pixels result(height, width, image.channels);
  for (int64_t y = 0; y < height; ++y)
    std::memcpy(result.row(y), image.row(top + y) + left * image.channels, static_cast<size_t>(width * image.channels));
  return result;
}

Pixels Resize(const PixelView& image, int64_t height, int64_t width) {
  if (width == image.width && height == image.height) return Pixels(image);
  if (width == image.width) return ScaleColumns(image, height);
  Pixels result = ScaleRows(image, width);
  return height == image.height ? result : ScaleColumns(result.view(), height);
}

Pixels Warp(const PixelView& image, const std::array<double, 6>& m) {
  Pixels result(image.height, image.width, image.channels);
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  uint8_t* to = result.bytes.data();
  for (int64_t y = 0; y < image.height; ++y) {
    const double row = static_cast<double>(y) + 0.5;
    for (int64_t x = 0; x < image.width; ++x, to += image.channels) {
      const double column = static_cast<double>(x) + 0.5;
      double at_x = m[0] * column + m[1] * row + m[2], at_y = m[3] * column + m[4] * row + m[5];
      if (!(at_x >= 0 && at_x < width && at_y >= 0 && at_y < height)) continue;
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
  }
  return result;
}

Pixels Rotate(const PixelView& image, double degrees) {
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
  return Warp(image, {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y});
}

}  // namespace composer
