// Pixels to draw on: smooth lines, and text in a font of 5 by 8 points with a place for each printable character of
// ASCII; others are boxes. Coordinates are pixels from the left and the top; what lies outside is cut off. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

struct Colour {
  uint8_t red = 0, green = 0, blue = 0;
  // Converts "#0072b2".
  static Colour FromHex(absl::string_view hex);
};

class Canvas {
 public:
  static constexpr int kGlyph = 6;  // pixels from one character to the next

  // White; sizes of at least 1.
  Canvas(int width, int height);

  // Draws a line of this thickness through the points, with round ends; a single point is a dot. Where it crosses
  // itself it is no darker.
  void Line(const std::vector<std::pair<double, double>>& points, double thickness, const Colour& colour);
  // Draws text to the right of x with its base line at y. `bold` doubles its strokes.
  void Text(double x, double y, absl::string_view utf8, const Colour& colour, bool bold = false);
  // Returns the pixels that Text takes in width.
  static int WidthOf(absl::string_view utf8);

  int width() const { return width_; }
  int height() const { return height_; }
  const std::vector<uint8_t>& pixels() const { return pixels_; }  // red, green, blue; by row

 private:
  struct Box {
    int left = 0, top = 0, right = 0, bottom = 0;  // without right and bottom themselves
  };
  // The pixels of the canvas that a line between two points may touch.
  Box BoxAround(std::pair<double, double> a, std::pair<double, double> b, double reach) const;
  void Blend(int x, int y, double share, const Colour& colour);

  const int width_, height_;
  std::vector<uint8_t> pixels_;
};

}  // namespace composer
