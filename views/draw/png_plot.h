// Draws curves as pixels, as svg_plot.h does, for places that show no SVG: chats, slides, mails. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "views/draw/svg_plot.h"

namespace composer {

// Returns a PNG file. Marks are not drawn. Labels are cut at the right edge.
absl::StatusOr<std::string> PngPlot(const std::vector<PlotCurve>& curves, const SvgOptions& options);

}  // namespace composer
