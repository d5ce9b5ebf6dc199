// SPDX-License-Identifier: Apache-2.0
#include "views/draw/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

namespace composer {
namespace {

constexpr XAxis kAxes[] = {XAxis::kBatch, XAxis::kEpoch, XAxis::kSample, XAxis::kToken, XAxis::kTime};

double XOf(const MetricRow& row, const MetricRow& first, XAxis axis) {
  switch (axis) {
    case XAxis::kBatch:
      return static_cast<double>(row.batch);
    case XAxis::kEpoch:
      return static_cast<double>(row.epoch);
    case XAxis::kSample:
      return static_cast<double>(row.sample);
    case XAxis::kToken:
      return static_cast<double>(row.token);
    case XAxis::kTime:
      return row.wall - first.wall;
  }
  return 0;
}

Range Widened(double low, double high) {
  if (!(low <= high)) return {};  // no point at all
  const double least = std::max(std::abs(low) * 1e-9, 1e-300);
  if (high - low > least) return {low, high};
  const double margin = low == 0 ? 1 : std::abs(low) * 0.05;
  return {low - margin, high + margin};
}

template <typename Take>
Range RangeOf(const std::vector<PlotCurve>& curves, const Take& take) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const PlotCurve& curve : curves) {
    for (const Point& point : curve.points) {
      double value = 0;
      if (!std::isfinite(point.x) || !std::isfinite(point.y) || !take(point, value)) continue;
      low = std::min(low, value), high = std::max(high, value);
    }
  }
  return Widened(low, high);
}

}  // namespace

const std::vector<std::string>& XAxisNames() {
  static const auto& names = *new std::vector<std::string>{"batch", "epoch", "sample", "token", "time"};
  return names;
}

const XAxis* XAxisByName(absl::string_view name) {
  const auto& names = XAxisNames();
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &kAxes[found - names.begin()];
}

std::vector<Point> PointsOf(const MetricsReader& reader, const MetricSeries& series, XAxis axis) {
  std::vector<Point> points;
  points.reserve(series.rows.size());
  const std::vector<MetricRow>& rows = reader.rows();
  for (size_t i = 0; i < series.rows.size(); ++i) {
    points.push_back({XOf(rows[series.rows[i]], rows[0], axis), series.values[i]});
  }
  return points;
}

std::vector<Point> Smoothed(const std::vector<Point>& points, double weight) {
  std::vector<Point> smooth = points;
  double sum = 0, rest = 1;
  for (Point& point : smooth) {
    if (!std::isfinite(point.y)) continue;
    sum = weight * sum + (1 - weight) * point.y;
    rest *= weight;
    point.y = sum / (1 - rest);
  }
  return smooth;
}

std::vector<Point> Thinned(const std::vector<Point>& points, size_t columns) {
  if (points.size() <= 2 * columns || columns == 0) return points;
  std::vector<Point> thin;
  const size_t per_column = (points.size() + columns - 1) / columns;
  for (size_t begin = 0; begin < points.size(); begin += per_column) {
    const size_t end = std::min(points.size(), begin + per_column);
    size_t low = end, high = end, gap = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(points[i].y)) {
        gap = i;
      } else {
        if (low == end || points[i].y < points[low].y) low = i;
        if (high == end || points[i].y > points[high].y) high = i;
      }
    }
    size_t kept[] = {low, high, gap};
    std::sort(std::begin(kept), std::end(kept));
    for (size_t k = 0; k < 3; ++k) {
      if (kept[k] < end && (k == 0 || kept[k] != kept[k - 1])) thin.push_back(points[kept[k]]);
    }
  }
  return thin;
}

Range RangeOfX(const std::vector<PlotCurve>& curves) {
  return RangeOf(curves, [](const Point& point, double& value) {
    value = point.x;
    return true;
  });
}

Range RangeOfY(const std::vector<PlotCurve>& curves, bool logarithmic) {
  const Range range = RangeOf(curves, [logarithmic](const Point& point, double& value) {
    value = logarithmic ? std::log10(point.y) : point.y;
    return std::isfinite(value);
  });
  return logarithmic ? Range{std::pow(10, range.low), std::pow(10, range.high)} : range;
}

std::vector<double> Ticks(const Range& range, int count, bool logarithmic) {
  std::vector<double> ticks;
  if (logarithmic) {
    const double low = std::ceil(std::log10(range.low) - 1e-9), high = std::log10(range.high) + 1e-9;
    const double stride = std::max(1.0, std::ceil((high - low) / (2 * count)));
    for (double power = low; power <= high; power += stride) ticks.push_back(std::pow(10, power));
    if (ticks.size() >= 2) return ticks;
    ticks.clear();  // less than two powers of ten: a linear scale's ticks
  }
  const double raw = (range.high - range.low) / std::max(1, count);
  const double unit = std::pow(10, std::floor(std::log10(raw)));
  const double step = raw / unit <= 1 ? unit : raw / unit <= 2 ? 2 * unit : raw / unit <= 5 ? 5 * unit : 10 * unit;
  if (!std::isfinite(step) || step <= 0) return {range.low, range.high};
  const double first = std::ceil(range.low / step - 1e-9);
  for (int i = 0; i <= 4 * count; ++i) {
    const double tick = (first + i) * step;
    if (tick > range.high + step * 1e-9) break;
    ticks.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
  }
  return ticks;
}

std::string ShortNumber(double value) {
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e15) {
    constexpr char kUnits[] = "kMGT";
    double scaled = value / 1e3;
    const char* unit = kUnits;
    while (std::abs(scaled) >= 1e3 && unit[1] != 0) scaled /= 1e3, ++unit;
    return absl::StrFormat("%.4g%c", scaled, *unit);
  }
  return absl::StrFormat("%.4g", value);
}

}  // namespace composer
