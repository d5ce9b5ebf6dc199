// Points of a metric, made fit to be drawn. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "views/read/metrics_reader.h"

namespace composer {

struct Point {
  double x = 0, y = 0;
  bool operator==(const Point&) const = default;
};

// A line of a picture. Values that are not finite are gaps.
struct PlotCurve {
  std::string label;
  std::vector<Point> points;  // by growing x
};

enum class XAxis { kBatch, kEpoch, kSample, kToken, kTime };  // kTime: seconds since the run's first record

// Returns null for an unknown name; "batch", "epoch", "sample", "token", "time".
const XAxis* XAxisByName(absl::string_view name);
const std::vector<std::string>& XAxisNames();

std::vector<Point> PointsOf(const MetricsReader& reader, const MetricSeries& series, XAxis axis);

// Exponential moving average without bias towards the start, as TensorBoard draws it:
// s_n = w s_{n-1} + (1 - w) y_n, drawn s_n / (1 - w^n). `weight` in [0, 1). Keeps gaps.
std::vector<Point> Smoothed(const std::vector<Point>& points, double weight);

// Returns at most about 2 * columns points that draw the same picture: the least and the greatest value of each column,
// in their order, and one point for a gap.
std::vector<Point> Thinned(const std::vector<Point>& points, size_t columns);

// A range of an axis; never empty.
struct Range {
  double low = 0, high = 1;
};
// Returns the ranges of x and y over all finite points; for a logarithmic axis only y > 0 counts.
Range RangeOfX(const std::vector<PlotCurve>& curves);
Range RangeOfY(const std::vector<PlotCurve>& curves, bool logarithmic);

// Returns about `count` round numbers (1, 2 or 5 times a power of ten; powers of ten when logarithmic) in the range.
std::vector<double> Ticks(const Range& range, int count, bool logarithmic = false);

// "0.4123", "12k", "1.2e-05": at most 8 characters.
std::string ShortNumber(double value);

}  // namespace composer
