// Draws curves with Braille characters, 2 by 4 dots in each. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "views/draw/curve.h"

namespace composer {

struct PlotOptions {
  std::string title, x_label;
  size_t columns = 80, lines = 20;  // of the whole picture, with axes; at least 30 by 8 are used
  bool logarithmic = false;         // y; values that are not positive are gaps
  bool colour = false;              // ANSI colours; labels are safe for a terminal either way
};

// Returns lines of text: the title, the picture with its axes, one line for each curve with its last value.
std::string TerminalPlot(const std::vector<PlotCurve>& curves, const PlotOptions& options);

}  // namespace composer
