// SPDX-License-Identifier: Apache-2.0
#include "views/draw/png_plot.h"

#include <cmath>
#include <utility>

#include "base/format/png.h"
#include "base/printable.h"
#include "views/draw/canvas.h"
#include "views/draw/plot_frame.h"

namespace composer {
namespace {

constexpr Colour kGrid = {0xdd, 0xdd, 0xdd}, kGrey = {0x55, 0x55, 0x55}, kBlack;
constexpr double kStroke = 1.5;

// A thin straight line is sharp in the middle of a row or column.
double MidPixel(double at) { return std::floor(at) + 0.5; }

void DrawAxes(const PlotFrame& frame, Canvas& canvas) {
  for (const double tick : frame.YTicks()) {
    const double y = frame.Y(tick);
    const std::string text = ShortNumber(tick);
    canvas.Line({{PlotFrame::kLeft, MidPixel(y)}, {frame.right(), MidPixel(y)}}, 1, kGrid);
    canvas.Text(PlotFrame::kLeft - 6 - Canvas::WidthOf(text), y + 4, text, kGrey);
  }
  for (const double tick : frame.XTicks()) {
    const double x = frame.X(tick);
    const std::string text = ShortNumber(tick);
    canvas.Line({{MidPixel(x), PlotFrame::kTop}, {MidPixel(x), frame.bottom()}}, 1, kGrid);
    canvas.Text(x - Canvas::WidthOf(text) / 2.0, frame.bottom() + 15, text, kGrey);
  }
}

void DrawCurve(const PlotCurve& curve, const PlotFrame& frame, const Colour& colour, Canvas& canvas) {
  std::vector<std::pair<double, double>> stroke;
  const auto end_stroke = [&] {
    if (!stroke.empty()) canvas.Line(std::exchange(stroke, {}), kStroke, colour);
  };
  for (const Point& point : Thinned(curve.points, 1000)) {
    const double x = frame.X(point.x), y = frame.Y(point.y);
    if (std::isfinite(x) && std::isfinite(y)) {
      stroke.emplace_back(x, y);
    } else {
      end_stroke();
    }
  }
  end_stroke();
}

}  // namespace

absl::StatusOr<std::string> PngPlot(const std::vector<PlotCurve>& curves, const SvgOptions& options) {
  const PlotFrame frame(curves, {options.width, options.height, options.logarithmic});
  Canvas canvas(frame.width(), frame.height());
  canvas.Text(PlotFrame::kLeft, 18, Printable(options.title), kBlack, /*bold=*/true);
  DrawAxes(frame, canvas);
  for (size_t i = 0; i < curves.size(); ++i) {
    const Colour colour = Colour::FromHex(CurveColour(i));
    DrawCurve(curves[i], frame, colour, canvas);
    if (curves.size() == 1) continue;
    const int y = frame.LegendLine(i);
    canvas.Line({{PlotFrame::kLeft, y - 4}, {PlotFrame::kLeft + 18, y - 4}}, 3, colour);
    canvas.Text(PlotFrame::kLeft + 24, y, Printable(curves[i].label), kBlack);
  }
  const double middle = (PlotFrame::kLeft + frame.right()) / 2;
  canvas.Text(middle - Canvas::WidthOf(options.x_label) / 2.0, frame.bottom() + 32, Printable(options.x_label), kGrey);
  return EncodePng({canvas.height(), canvas.width(), 3, canvas.pixels()});
}

}  // namespace composer
