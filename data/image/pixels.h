// Images as 8-bit pixels, rows from the top, channels innermost: what the decoders give and the transforms take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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
  Pixels(int64_t rows, int64_t columns, int64_t depth)
      : height(rows), width(columns), channels(depth), bytes(static_cast<size_t>(rows * columns * depth)) {}
  explicit Pixels(const PixelView& view)
      : height(view.height), width(view.width), channels(view.channels), bytes(view.bytes, view.bytes + view.size()) {}

  PixelView view() const { return {bytes.data(), height, width, channels}; }
  uint8_t* row(int64_t y) { return bytes.data() + y * width * channels; }
  bool operator==(const Pixels&) const = default;

  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes;
};

}  // namespace composer
