// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/progress_line.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {
namespace {

constexpr int kWidestBar = 30, kNarrowestBar = 3;
constexpr absl::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};

// Formats a duration as "00:12" or "1:02:03".
std::string HoursMinutes(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  const int64_t hours = seconds / 3600, minutes = seconds / 60 % 60;
  if (hours > 0) return absl::StrFormat("%d:%02d:%02d", hours, minutes, seconds % 60);
  return absl::StrFormat("%02d:%02d", minutes, seconds % 60);
}

// Formats a number with three digits: "0.85", "17.1", "1234".
std::string Short(double number) {
  const double size = std::abs(number);
  return absl::StrFormat("%.*f", size >= 100 ? 0 : size >= 10 ? 1 : 2, number);
}

// Formats "17.1ba/s", or "2.50s/ba" below one per second.
std::string Rate(double per_second, absl::string_view unit) {
  if (per_second >= 1) return absl::StrCat(Short(per_second), unit, "/s");
  return absl::StrCat(Short(1 / per_second), "s/", unit);
}

double Share(const ProgressLine& line) {
  if (line.total <= 0) return 0;
  return std::clamp(static_cast<double>(line.done) / static_cast<double>(line.total), 0.0, 1.0);
}

// Formats "[00:12<00:15, 17.1ba/s, loss=0.412]".
std::string Details(const ProgressLine& line) {
  std::string text = absl::StrCat("[", HoursMinutes(line.elapsed));
  const double per_second = static_cast<double>(line.done - line.done_before) / absl::ToDoubleSeconds(line.elapsed);
  const bool moved = std::isfinite(per_second) && per_second > 0;
  if (line.total > 0) {
    const double left = static_cast<double>(std::max<int64_t>(0, line.total - line.done));
    absl::StrAppend(&text, "<", moved ? HoursMinutes(absl::Seconds(left / per_second)) : "?");
  }
  if (moved) absl::StrAppend(&text, ", ", Rate(per_second, line.unit));
  for (const auto& [name, value] : line.metrics) absl::StrAppend(&text, ", ", name, absl::StrFormat("=%.3g", value));
  return text + "]";
}

std::string Bar(double share, int width) {
  const int eighths = static_cast<int>(share * width * 8);
  std::string bar;
  for (int cell = 0; cell < width; ++cell) {
    const int filled = std::clamp(eighths - 8 * cell, 0, 8);
    absl::StrAppend(&bar, filled > 0 ? kEighths[filled] : " ");
  }
  return bar;
}

}  // namespace

std::string RenderBar(const ProgressLine& line, int columns) {
  const size_t width = static_cast<size_t>(std::max(0, columns));
  const std::string details = Details(line);
  const double share = Share(line);
  const std::string head = line.total <= 0 ? absl::StrCat(line.title, ": ", line.done, line.unit)
                                           : absl::StrFormat("%s: %3d%%", line.title, static_cast<int>(share * 100));
  const std::string tail =
      line.total <= 0 ? absl::StrCat(" ", details) : absl::StrCat(" ", line.done, "/", line.total, " ", details);
  if (head.size() + tail.size() > width && !line.metrics.empty()) {
    ProgressLine shorter = line;
    shorter.metrics.pop_back();
    return RenderBar(shorter, columns);
  }
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 2;
  if (line.total <= 0 || room < kNarrowestBar) return absl::StrCat(head, tail).substr(0, width);
  return absl::StrCat(head, "|", Bar(share, std::min(room, kWidestBar)), "|", tail);
}

std::string RenderPlain(const ProgressLine& line) {
  if (line.total <= 0) return absl::StrCat(line.title, ": ", line.done, line.unit, " ", Details(line));
  return absl::StrFormat("%s: %d/%d (%d%%) %s", line.title, line.done, line.total, static_cast<int>(Share(line) * 100),
                         Details(line));
}

}  // namespace composer
