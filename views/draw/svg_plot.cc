// SPDX-License-Identifier: Apache-2.0
#include "views/draw/svg_plot.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "views/draw/plot_frame.h"

namespace composer {
namespace {

std::string Axes(const PlotFrame& frame) {
  std::string svg = "<g stroke=\"#ddd\">";
  std::string text = "<g fill=\"#555\">";
  for (const double tick : frame.YTicks()) {
    const double y = frame.Y(tick);
    absl::StrAppendFormat(&svg, "<path d=\"M%d %.1fH%.1f\"/>", PlotFrame::kLeft, y, frame.right());
    absl::StrAppendFormat(&text, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>", PlotFrame::kLeft - 6, y + 4,
                          ShortNumber(tick));
  }
  for (const double tick : frame.XTicks()) {
    const double x = frame.X(tick);
    absl::StrAppendFormat(&svg, "<path d=\"M%.1f %dV%.1f\"/>", x, PlotFrame::kTop, frame.bottom());
    absl::StrAppendFormat(&text, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>", x, frame.bottom() + 15,
                          ShortNumber(tick));
  }
  return absl::StrCat(svg, "</g>", text, "</g>");
}

std::string Marks(const PlotFrame& frame, const std::vector<double>& marks) {
  std::string svg;
  for (const double mark : marks) {
    if (mark < frame.x().low || mark > frame.x().high) continue;
    absl::StrAppendFormat(&svg, "<path d=\"M%.1f %dV%.1f\" stroke=\"#c00\" stroke-dasharray=\"3 3\"/>", frame.X(mark),
                          PlotFrame::kTop, frame.bottom());
  }
  return svg;
}

std::string Path(const PlotCurve& curve, const PlotFrame& frame, absl::string_view colour) {
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
  const PlotFrame frame(curves, {options.width, options.height, options.logarithmic});
  const int width = frame.width(), height = frame.height();
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"11\"><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>",
      width, height, width, height);
  absl::StrAppend(&svg, "<text x=\"", PlotFrame::kLeft, "\" y=\"18\" font-size=\"13\" font-weight=\"bold\">",
                  MarkupText(options.title), "</text>", Axes(frame), Marks(frame, options.marks));
  for (size_t i = 0; i < curves.size(); ++i) {
    const absl::string_view colour = CurveColour(i);
    absl::StrAppend(&svg, Path(curves[i], frame, colour));
    if (curves.size() == 1) continue;
    const int y = frame.LegendLine(i);
    absl::StrAppendFormat(&svg, "<path d=\"M%d %dh18\" stroke=\"%s\" stroke-width=\"3\"/>", PlotFrame::kLeft, y - 4,
                          colour);
    absl::StrAppend(&svg, "<text x=\"", PlotFrame::kLeft + 24, "\" y=\"", y, "\">", MarkupText(curves[i].label),
                    "</text>");
  }
  absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555\">%s</text></svg>\n",
                        (PlotFrame::kLeft + frame.right()) / 2, frame.bottom() + 32, MarkupText(options.x_label));
  return svg;
}

}  // namespace composer
