// SPDX-License-Identifier: Apache-2.0
#include "views/draw/svg_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"

namespace composer {
namespace {

constexpr int kLeft = 64, kRight = 12, kTop = 28, kBottom = 40, kLegendLine = 16;
// Okabe and Ito's colours, which people with colour blindness can tell apart.
constexpr absl::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"};

class Frame {
 public:
  Frame(const std::vector<PlotCurve>& curves, const SvgOptions& options)
      : x_(RangeOfX(curves)),
        y_(RangeOfY(curves, options.logarithmic)),
        logarithmic_(options.logarithmic),
        width_(std::max(120, options.width) - kLeft - kRight),
        height_(std::max(100, options.height) - kTop - kBottom) {}

  double X(double value) const { return kLeft + (value - x_.low) / (x_.high - x_.low) * width_; }
  double Y(double value) const {
    const double up = logarithmic_
                          ? (std::log10(value) - std::log10(y_.low)) / (std::log10(y_.high) - std::log10(y_.low))
                          : (value - y_.low) / (y_.high - y_.low);
    return kTop + (1 - up) * height_;
  }
  const Range& x() const { return x_; }
  double right() const { return kLeft + width_; }
  double bottom() const { return kTop + height_; }
  std::vector<double> XTicks() const { return Ticks(x_, 6); }
  std::vector<double> YTicks() const { return Ticks(y_, 5, logarithmic_); }

 private:
  const Range x_, y_;
  const bool logarithmic_;
  const double width_, height_;
};

std::string Axes(const Frame& frame) {
  std::string svg = "<g stroke=\"#ddd\">";
  std::string text = "<g fill=\"#555\">";
  for (const double tick : frame.YTicks()) {
    const double y = frame.Y(tick);
    absl::StrAppendFormat(&svg, "<path d=\"M%d %.1fH%.1f\"/>", kLeft, y, frame.right());
    absl::StrAppendFormat(&text, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kLeft - 6, y + 4,
                          ShortNumber(tick));
  }
  for (const double tick : frame.XTicks()) {
    const double x = frame.X(tick);
    absl::StrAppendFormat(&svg, "<path d=\"M%.1f %dV%.1f\"/>", x, kTop, frame.bottom());
    absl::StrAppendFormat(&text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x, frame.bottom() + 15,
                          ShortNumber(tick));
  }
  return absl::StrCat(svg, "</g>", text, "</g>");
}

std::string Marks(const Frame& frame, const std::vector<double>& marks) {
  std::string svg;
  for (const double mark : marks) {
    if (mark < frame.x().low || mark > frame.x().high) continue;
    absl::StrAppendFormat(&svg, "<path d=\"M%.1f %dV%.1f\" stroke=\"#c00\" stroke-dasharray=\"3 3\"/>", frame.X(mark),
                          kTop, frame.bottom());
  }
  return svg;
}

std::string Path(const PlotCurve& curve, const Frame& frame, absl::string_view colour) {
  std::string path;
  bool connected = false, any = false;
  for (const Point& point : Thinned(curve.points, 1000)) {
    const double x = frame.X(point.x), y = frame.Y(point.y);
    const bool visible = std::isfinite(x) && std::isfinite(y);
    if (visible) absl::StrAppendFormat(&path, "%s%.1f %.1f", connected ? "L" : "M", x, y);
    if (visible && !connected) absl::StrAppend(&path, "h0");  // a single point is drawn, too
    connected = visible;
    any = any || visible;
  }
  if (!any) return "";
  return absl::StrCat("<path d=\"", path, "\" fill=\"none\" stroke=\"", colour,
                      "\" stroke-width=\"1.5\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>");
}

}  // namespace

std::string MarkupText(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string SvgPlot(const std::vector<PlotCurve>& curves, const SvgOptions& options) {
  const Frame frame(curves, options);
  const bool legend = curves.size() > 1;
  const int height = std::max(100, options.height) + (legend ? kLegendLine * static_cast<int>(curves.size()) : 0);
  const int width = std::max(120, options.width);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>",
      width, height, width, height);
  absl::StrAppend(&svg, "<text x=\"", kLeft, "\" y=\"18\" font-size=\"13\" font-weight=\"bold\">",
                  MarkupText(options.title), "</text>", Axes(frame), Marks(frame, options.marks));
  for (size_t i = 0; i < curves.size(); ++i) {
    const absl::string_view colour = kColours[i % std::size(kColours)];
    absl::StrAppend(&svg, Path(curves[i], frame, colour));
    if (!legend) continue;
    const int y = std::max(100, options.height) + kLegendLine * static_cast<int>(i);
    absl::StrAppendFormat(&svg, "<path d=\"M%d %dh18\" stroke=\"%s\" stroke-width=\"3\"/>", kLeft, y - 4, colour);
    absl::StrAppend(&svg, "<text x=\"", kLeft + 24, "\" y=\"", y, "\">", MarkupText(curves[i].label), "</text>");
  }
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%s</text></svg>\n",
                        (kLeft + frame.right()) / 2, frame.bottom() + 32, MarkupText(options.x_label));
  return svg;
}

}  // namespace composer
