// SPDX-License-Identifier: Apache-2.0
#include "views/draw/terminal_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"

namespace composer {
namespace {

constexpr size_t kMargin = 9;  // columns left of the picture: a number and the axis
constexpr int kAnsiColours[] = {36, 33, 35, 32, 34, 31};

// Dots in cells of 2 by 4; the last curve to touch a cell gives its colour.
class DotCanvas {
 public:
  DotCanvas(size_t columns, size_t lines)
      : columns_(columns), lines_(lines), dots_(columns * lines), owner_(columns * lines, -1) {}
  int64_t width() const { return static_cast<int64_t>(columns_) * 2; }
  int64_t height() const { return static_cast<int64_t>(lines_) * 4; }

  void Line(int64_t x0, int64_t y0, int64_t x1, int64_t y1, int owner) {
    const int64_t steps = std::max<int64_t>({1, std::abs(x1 - x0), std::abs(y1 - y0)});
    for (int64_t i = 0; i <= steps; ++i) Dot(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, owner);
  }

  std::string Text(size_t line, bool colour) const {
    std::string text;
    int current = -1;
    for (size_t column = 0; column < columns_; ++column) {
      const size_t cell = line * columns_ + column;
      if (dots_[cell] != 0 && colour && owner_[cell] != current) {
        current = owner_[cell];
        absl::StrAppend(&text, "\033[", kAnsiColours[current % std::size(kAnsiColours)], "m");
      }
      const uint32_t code = 0x2800 + dots_[cell];  // U+2800: no dot
      if (dots_[cell] == 0) {
        text.push_back(' ');
      } else {
        text.push_back(static_cast<char>(0xE0 | (code >> 12)));
        text.push_back(static_cast<char>(0x80 | ((code >> 6) & 63)));
        text.push_back(static_cast<char>(0x80 | (code & 63)));
      }
    }
    return current >= 0 ? absl::StrCat(text, "\033[0m") : text;
  }

 private:
  void Dot(int64_t x, int64_t y, int owner) {
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= width() || y >= height()) return;
    const size_t cell = static_cast<size_t>(y / 4) * columns_ + static_cast<size_t>(x / 2);
    dots_[cell] |= kBits[y % 4][x % 2];
    owner_[cell] = owner;
  }

  const size_t columns_, lines_;
  std::vector<uint8_t> dots_;
  std::vector<int> owner_;
};

struct Scale {
  Range x, y;
  bool logarithmic;

  double AcrossX(double value) const { return (value - x.low) / (x.high - x.low); }
  double AcrossY(double value) const {
    if (!logarithmic) return (value - y.low) / (y.high - y.low);
    return (std::log10(value) - std::log10(y.low)) / (std::log10(y.high) - std::log10(y.low));
  }
};

void Draw(const PlotCurve& curve, int owner, const Scale& scale, DotCanvas& canvas) {
  bool connected = false;
  int64_t last_x = 0, last_y = 0;
  for (const Point& point : Thinned(curve.points, static_cast<size_t>(canvas.width()))) {
    const double across = scale.AcrossX(point.x), up = scale.AcrossY(point.y);
    if (!std::isfinite(across) || !std::isfinite(up)) {
      connected = false;
      continue;
    }
    const auto x = static_cast<int64_t>(std::lround(across * static_cast<double>(canvas.width() - 1)));
    const auto y = static_cast<int64_t>(std::lround((1 - up) * static_cast<double>(canvas.height() - 1)));
    canvas.Line(connected ? last_x : x, connected ? last_y : y, x, y, owner);
    connected = true, last_x = x, last_y = y;
  }
}

std::string XLabels(const Range& range, size_t columns, absl::string_view label) {
  const std::string low = ShortNumber(range.low), high = ShortNumber(range.high);
  const size_t used = low.size() + label.size() + high.size();
  const size_t room = columns > used ? columns - used : 2;
  return absl::StrCat(low, std::string(room / 2, ' '), label, std::string(room - room / 2, ' '), high);
}

std::string Legend(const std::vector<PlotCurve>& curves, bool colour) {
  std::string text;
  for (size_t i = 0; i < curves.size(); ++i) {
    const auto& points = curves[i].points;
    const std::string last = points.empty() ? "no values" : ShortNumber(points.back().y);
    const std::string mark =
        colour ? absl::StrCat("\033[", kAnsiColours[i % std::size(kAnsiColours)], "m──\033[0m") : "──";
    absl::StrAppend(&text, "  ", mark, " ", Printable(curves[i].label), "  ", last, "\n");
  }
  return text;
}

}  // namespace

std::string TerminalPlot(const std::vector<PlotCurve>& curves, const PlotOptions& options) {
  const size_t columns = std::max<size_t>(options.columns, 30) - kMargin;
  const size_t lines = std::max<size_t>(options.lines, 8) - 3;
  const Scale scale{RangeOfX(curves), RangeOfY(curves, options.logarithmic), options.logarithmic};
  DotCanvas canvas(columns, lines);
  for (size_t i = 0; i < curves.size(); ++i) Draw(curves[i], static_cast<int>(i), scale, canvas);
  std::vector<std::string> labels(lines);
  for (const double tick : Ticks(scale.y, static_cast<int>(lines / 3) + 1, options.logarithmic)) {
    const double up = scale.AcrossY(tick);
    const auto line = static_cast<int64_t>(std::lround((1 - up) * static_cast<double>(lines - 1)));
    if (line >= 0 && line < static_cast<int64_t>(lines)) labels[static_cast<size_t>(line)] = ShortNumber(tick);
  }
  std::string text = absl::StrCat(std::string(kMargin, ' '), Printable(options.title), "\n");
  for (size_t line = 0; line < lines; ++line) {
    absl::StrAppendFormat(&text, "%*s %s", kMargin - 2, labels[line], labels[line].empty() ? "│" : "┤");
    absl::StrAppend(&text, canvas.Text(line, options.colour), "\n");
  }
  std::string axis;
  for (size_t i = 0; i < columns; ++i) axis += "─";
  absl::StrAppend(&text, std::string(kMargin - 1, ' '), "└", axis, "\n");
  absl::StrAppend(&text, std::string(kMargin, ' '), XLabels(scale.x, columns, options.x_label), "\n");
  return absl::StrCat(text, Legend(curves, options.colour));
}

}  // namespace composer
