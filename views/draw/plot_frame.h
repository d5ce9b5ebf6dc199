// Where things stand in a picture of curves: the axes, and the legend below them when there are several curves. Pixels
// from the left and the top. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/string_view.h"
#include "views/draw/curve.h"

namespace composer {

// Okabe and Ito's colours, which people with colour blindness can tell apart, as "#0072b2".
inline absl::string_view CurveColour(size_t index) {
  constexpr absl::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#555555"};
  return kColours[index % std::size(kColours)];
}

class PlotFrame {
 public:
  static constexpr int kLeft = 64, kRight = 12, kTop = 28, kBottom = 40, kLegendLine = 16;

  struct Size {
    int width = 640, height = 320;  // without the legend; at least 120 by 100 are used
    bool logarithmic = false;       // y
  };
  PlotFrame(const std::vector<PlotCurve>& curves, const Size& size)
      : x_(RangeOfX(curves)),
        y_(RangeOfY(curves, size.logarithmic)),
        logarithmic_(size.logarithmic),
        width_(std::max(120, size.width)),
        height_(std::max(100, size.height)),
        legend_(curves.size() > 1 ? static_cast<int>(curves.size()) : 0) {}

  double X(double value) const { return kLeft + (value - x_.low) / (x_.high - x_.low) * (right() - kLeft); }
  double Y(double value) const {
    const double up = logarithmic_
                          ? (std::log10(value) - std::log10(y_.low)) / (std::log10(y_.high) - std::log10(y_.low))
                          : (value - y_.low) / (y_.high - y_.low);
    return kTop + (1 - up) * (bottom() - kTop);
  }
  const Range& x() const { return x_; }
  double right() const { return width_ - kRight; }
  double bottom() const { return height_ - kBottom; }
  std::vector<double> XTicks() const { return Ticks(x_, 6); }
  std::vector<double> YTicks() const { return Ticks(y_, 5, logarithmic_); }

  // Of the whole picture.
  int width() const { return width_; }
  int height() const { return height_ + kLegendLine * legend_; }
  // The base line of a curve's label in the legend.
  int LegendLine(size_t curve) const { return height_ + kLegendLine * static_cast<int>(curve); }

 private:
  const Range x_, y_;
  const bool logarithmic_;
  const int width_, height_;
  const int legend_;  // lines
};

}  // namespace composer
