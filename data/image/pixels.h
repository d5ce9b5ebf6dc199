// Images as 8-bit pixels, rows from the top, channels innermost: what the decoders give and the transforms take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image/pixel_memory.h"

namespace composer {

// Points at [height, width, channels] bytes of another's, without gaps.
struct PixelView {
  const uint8_t* bytes = nullptr;
  int64_t height = 0, width = 0, channels = 0;

  int64_t stride() const { return width * channels; }
  int64_t size() const { return height * stride(); }
  const uint8_t* row(int64_t y) const { return bytes + y * stride(); }
};

// Channels: 1 is grey, 2 grey and alpha, 3 red, green and blue, 4 the same and alpha.
struct Pixels {
  Pixels() = default;
  // All 0.
  Pixels(int64_t rows, int64_t columns, int64_t depth) : Pixels(Unset(rows, columns, depth)) {
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  }
  explicit Pixels(const PixelView& view) : Pixels(Unset(view.height, view.width, view.channels)) {
    std::copy_n(view.bytes, view.size(), bytes.begin());
  }
  // For who writes all of them: setting them takes 3 % of the time of decoding a photograph.
  static Pixels Unset(int64_t rows, int64_t columns, int64_t depth) {
    Pixels pixels;
    pixels.height = rows;
    pixels.width = columns;
    pixels.channels = depth;
    pixels.bytes = Bytes(static_cast<size_t>(rows * columns * depth));
    return pixels;
  }

  PixelView view() const { return {bytes.data(), height, width, channels}; }
  uint8_t* row(int64_t y) { return bytes.data() + y * width * channels; }
  bool operator==(const Pixels&) const = default;

  using Bytes = std::vector<uint8_t, PixelAllocator<uint8_t>>;

  int64_t height = 0, width = 0, channels = 0;
  Bytes bytes;
};

}  // namespace composer
