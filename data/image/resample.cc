// SPDX-License-Identifier: Apache-2.0
#include "data/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

Pixels GaussianBlur(const PixelView& image, int64_t side, double sigma) {
  const int64_t half = side / 2;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = -half; i <= half; ++i) {
    weights.push_back(std::exp(-0.5 * std::pow(static_cast<double>(i) / sigma, 2)));
    sum += weights.back();
  }
  const auto mirrored = [](int64_t at, int64_t size) { return at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at; };
  const int64_t channels = image.channels;
  std::vector<double> rows(static_cast<size_t>(image.size()), 0.0);  // blurred along the rows
  Pixels result = Pixels::Unset(image.height, image.width, image.channels);
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t i = 0; i < image.stride(); ++i) {
      for (int64_t k = -half; k <= half; ++k) {
        const int64_t x = mirrored(i / channels + k, image.width);
        rows[y * image.stride() + i] += weights[k + half] / sum * image.row(y)[x * channels + i % channels];
      }
    }
  }
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t i = 0; i < image.stride(); ++i) {
      double value = 0;
      for (int64_t k = -half; k <= half; ++k)
        value += weights[k + half] / sum * rows[mirrored(y + k, image.height) * image.stride() + i];
      result.row(y)[i] = static_cast<uint8_t>(std::nearbyint(value));
    }
  }
  return result;
}

}  // namespace composer
