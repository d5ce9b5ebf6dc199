// Draws curves as one SVG element, which also stands alone as a file. Pure; labels are escaped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "views/draw/curve.h"

namespace composer {

struct SvgOptions {
  std::string title, x_label;
  int width = 640, height = 320;  // pixels
  bool logarithmic = false;
  std::vector<double> marks;  // x at which a thin vertical line stands: restarts
};

std::string SvgPlot(const std::vector<PlotCurve>& curves, const SvgOptions& options);

// Returns text for HTML and XML, between tags and in quoted attributes: & < > " ' are escaped, and what is not valid
// UTF-8 or a control character becomes \xNN. Line feeds and tabs are kept.
std::string MarkupText(absl::string_view text);

}  // namespace composer
