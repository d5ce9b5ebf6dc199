// SPDX-License-Identifier: Apache-2.0
#include "views/draw/canvas.h"

#include <algorithm>
#include <cmath>

namespace composer {
namespace {

constexpr int kGlyphWidth = 5, kGlyphHeight = 8, kBaseline = 7, kPerBand = 16;
constexpr int kBandWidth = kPerBand * (kGlyphWidth + 1);  // with a space or the end of the line behind each

// The characters from the space on, 16 a band; the last one stands for all others.
constexpr absl::string_view kFont =
    R"(..... ..#.. .#.#. .#.#. ..#.. ##..# .##.. ..#.. ...#. .#... ..... ..... ..... ..... ..... ....#
..... ..#.. .#.#. .#.#. .#### ##.#. #..#. ..#.. ..#.. ..#.. ..#.. ..#.. ..... ..... ..... ...#.
..... ..#.. .#.#. ##### #.#.. ...#. #.#.. ..#.. .#... ...#. #.#.# ..#.. ..... ..... ..... ...#.
..... ..#.. ..... .#.#. .###. ..#.. .#... ..... .#... ...#. .###. ##### ..... ##### ..... ..#..
..... ..#.. ..... ##### ..#.# .#... #.#.# ..... .#... ...#. #.#.# ..#.. ..... ..... ..... .#...
..... ..... ..... .#.#. ####. .#.## #..#. ..... ..#.. ..#.. ..#.. ..#.. .##.. ..... .##.. .#...
..... ..#.. ..... .#.#. ..#.. #..## .##.# ..... ...#. .#... ..... ..... ..#.. ..... .##.. #....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .#... ..... ..... .....
.###. ..#.. .###. .###. ...#. ##### ..##. ##### .###. .###. ..... ..... ...#. ..... .#... .###.
#...# .##.. #...# #...# ..##. #.... .#... ....# #...# #...# .##.. .##.. ..#.. ..... ..#.. #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...# .##.. .##.. .#... ##### ...#. ....#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .#### ..... ..... #.... ..... ....# ...#.
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....# .##.. .##.. .#... ##### ...#. ..#..
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#. .##.. .##.. ..#.. ..... ..#.. .....
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##.. ..... ..#.. ...#. ..... .#... ..#..
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .#... ..... ..... ..... .....
.###. .###. ####. .###. ###.. ##### ##### .###. #...# .###. ..### #...# #.... #...# #...# .###.
#...# #...# #...# #...# #..#. #.... #.... #...# #...# ..#.. ...#. #..#. #.... ##.## ##..# #...#
#.### #...# #...# #.... #...# #.... #.... #.... #...# ..#.. ...#. #.#.. #.... #.#.# #.#.# #...#
#.#.# ##### ####. #.... #...# ####. ####. #.### ##### ..#.. ...#. ##... #.... #.#.# #..## #...#
#.### #...# #...# #.... #...# #.... #.... #...# #...# ..#.. ...#. #.#.. #.... #...# #...# #...#
#.... #...# #...# #...# #..#. #.... #.... #...# #...# ..#.. #..#. #..#. #.... #...# #...# #...#
.###. #...# ####. .###. ###.. ##### #.... .#### #...# .###. .##.. #...# ##### #...# #...# .###.
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... .....
####. .###. ####. .#### ##### #...# #...# #...# #...# #...# ##### .###. #.... .###. ..#.. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# #...# #...# ....# .#... .#... ...#. .#.#. .....
#...# #...# #...# #.... ..#.. #...# #...# #...# .#.#. .#.#. ...#. .#... .#... ...#. #...# .....
####. #...# ####. .###. ..#.. #...# #...# #.#.# ..#.. ..#.. ..#.. .#... ..#.. ...#. ..... .....
#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.# .#.#. ..#.. .#... .#... ...#. ...#. ..... .....
#.... #..#. #..#. ....# ..#.. #...# .#.#. ##.## #...# ..#.. #.... .#... ...#. ...#. ..... .....
#.... .##.# #...# ####. ..#.. .###. ..#.. #...# #...# ..#.. ##### .###. ....# .###. ..... .....
..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... ..... #####
.#... ..... #.... ..... ....# ..... ..##. ..... #.... ..#.. ...#. #.... .##.. ..... ..... .....
..#.. ..... #.... ..... ....# ..... .#..# ..... #.... ..... ..... #.... ..#.. ..... ..... .....
..... .###. ####. .###. .#### .###. .#... .#### #.##. .##.. ..##. #..#. ..#.. ##.#. #.##. .###.
..... ....# #...# #.... #...# #...# ###.. #...# ##..# ..#.. ...#. #.#.. ..#.. #.#.# ##..# #...#
..... .#### #...# #.... #...# ##### .#... #...# #...# ..#.. ...#. ##... ..#.. #.#.# #...# #...#
..... #...# #...# #...# #...# #.... .#... .#### #...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...#
..... .#### ####. .###. .#### .###. .#... ....# #...# .###. #..#. #..#. .###. #.#.# #...# .###.
..... ..... ..... ..... ..... ..... ..... .###. ..... ..... .##.. ..... ..... ..... ..... .....
..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ...#. ..#.. .#... ..... #####
..... ..... ..... ..... .#... ..... ..... ..... ..... ..... ..... ..#.. ..#.. ..#.. ..... #...#
####. .#### #.##. .#### ####. #...# #...# #...# #...# #...# ##### ..#.. ..#.. ..#.. .#... #...#
#...# #...# ##..# #.... .#... #...# #...# #...# .#.#. #...# ...#. .#... ..#.. ...#. #.#.# #...#
#...# #...# #.... .###. .#... #...# #...# #.#.# ..#.. #...# ..#.. ..#.. ..#.. ..#.. ...#. #...#
####. .#### #.... ....# .#..# #..## .#.#. #.#.# .#.#. .#### .#... ..#.. ..#.. ..#.. ..... #...#
#.... ....# #.... ####. ..##. .##.# ..#.. .#.#. #...# ....# ##### ...#. ..#.. .#... ..... #####
#.... ....# ..... ..... ..... ..... ..... ..... ..... .###. ..... ..... ..... ..... ..... .....
)";

// Returns the number of a character's glyph, and moves past it.
size_t NextGlyph(absl::string_view& utf8) {
  constexpr size_t kOther = 95;
  const auto first = static_cast<unsigned char>(utf8[0]);
  utf8.remove_prefix(1);
  if (first < 0x80) return first >= 0x20 && first < 0x7f ? first - size_t{0x20} : kOther;
  while (!utf8.empty() && (static_cast<unsigned char>(utf8[0]) & 0xc0U) == 0x80U) utf8.remove_prefix(1);
  return kOther;
}

bool InGlyph(size_t glyph, int column, int row) {
  const size_t line = glyph / kPerBand * kGlyphHeight + static_cast<size_t>(row);
  return kFont[line * kBandWidth + glyph % kPerBand * (kGlyphWidth + 1) + static_cast<size_t>(column)] == '#';
}

double DistanceToSegment(double x, double y, std::pair<double, double> a, std::pair<double, double> b) {
  const double dx = b.first - a.first, dy = b.second - a.second, length = dx * dx + dy * dy;
  const double t = length > 0 ? std::clamp(((x - a.first) * dx + (y - a.second) * dy) / length, 0.0, 1.0) : 0;
  return std::hypot(x - a.first - t * dx, y - a.second - t * dy);
}

int HexDigit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

}  // namespace

Colour Colour::FromHex(absl::string_view hex) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(16 * HexDigit(hex[at]) + HexDigit(hex[at + 1])); };
  return {byte(1), byte(3), byte(5)};
}

Canvas::Canvas(int width, int height)
    : width_(std::max(1, width)),
      height_(std::max(1, height)),
      pixels_(3 * static_cast<size_t>(width_) * static_cast<size_t>(height_), 0xff) {}

Canvas::Box Canvas::BoxAround(std::pair<double, double> a, std::pair<double, double> b, double reach) const {
  const auto inside = [](double value, int most) {
    return static_cast<int>(std::clamp(value, 0.0, static_cast<double>(most)));
  };
  return {inside(std::min(a.first, b.first) - reach, width_), inside(std::min(a.second, b.second) - reach, height_),
          inside(std::max(a.first, b.first) + reach + 1, width_),
          inside(std::max(a.second, b.second) + reach + 1, height_)};
}

void Canvas::Blend(int x, int y, double share, const Colour& colour) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  uint8_t* pixel = &pixels_[3 * (static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x))];
  for (const uint8_t value : {colour.red, colour.green, colour.blue}) {
    *pixel = static_cast<uint8_t>(std::lround(share * value + (1 - share) * *pixel));
    ++pixel;
  }
}

void Canvas::Line(const std::vector<std::pair<double, double>>& points, double thickness, const Colour& colour) {
  if (points.empty()) return;
  const double reach = thickness / 2 + 0.5;
  Box all = BoxAround(points[0], points[0], reach);
  for (const auto& point : points) {
    const Box box = BoxAround(point, point, reach);
    all = {std::min(all.left, box.left), std::min(all.top, box.top), std::max(all.right, box.right),
           std::max(all.bottom, box.bottom)};
  }
  const auto columns = static_cast<size_t>(all.right - all.left);
  std::vector<float> shares(columns * static_cast<size_t>(all.bottom - all.top));
  const auto share_at = [&](int x, int y) -> float& {
    return shares[static_cast<size_t>(y - all.top) * columns + static_cast<size_t>(x - all.left)];
  };
  for (size_t i = points.size() > 1 ? 1 : 0; i < points.size(); ++i) {
    const auto& from = points[i > 0 ? i - 1 : 0];
    const Box box = BoxAround(from, points[i], reach);
    for (int y = box.top; y < box.bottom; ++y) {
      for (int x = box.left; x < box.right; ++x) {
        const double share = std::clamp(reach - DistanceToSegment(x + 0.5, y + 0.5, from, points[i]), 0.0, 1.0);
        share_at(x, y) = std::max(share_at(x, y), static_cast<float>(share));
      }
    }
  }
  for (int y = all.top; y < all.bottom; ++y) {
    for (int x = all.left; x < all.right; ++x) {
      if (share_at(x, y) > 0) Blend(x, y, share_at(x, y), colour);
    }
  }
}

void Canvas::Text(double x, double y, absl::string_view utf8, const Colour& colour, bool bold) {
  int left = static_cast<int>(std::lround(x));
  const int top = static_cast<int>(std::lround(y)) - kBaseline;
  while (!utf8.empty()) {
    const size_t glyph = NextGlyph(utf8);
    for (int row = 0; row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth; ++column) {
        if (!InGlyph(glyph, column, row)) continue;
        Blend(left + column, top + row, 1, colour);
        if (bold) Blend(left + column + 1, top + row, 0.6, colour);
      }
    }
    left += kGlyph;
  }
}

int Canvas::WidthOf(absl::string_view utf8) {
  int count = 0;
  for (; !utf8.empty(); ++count) NextGlyph(utf8);
  return count * kGlyph;
}

}  // namespace composer
