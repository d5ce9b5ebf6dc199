// What `composer speedrun` has measured: a line of JSON for each finished run, and the two arms beside each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/speedrun/welch.h"

namespace composer {

// One finished run.
struct SpeedrunLine {
  std::string task, arm;
  int seed = 0;
  std::string job;       // checksum of its file and what was changed in it
  bool reached = false;  // the quality; if not, the other figures are those of the whole run
  double value = 0;      // of the metric in the last evaluation
  int64_t steps = 0;
  double cpu_seconds = 0, wall_seconds = 0;  // of all its processes, from start to end
  std::string finished;                      // RFC 3339, UTC
};

// Returns one line without its '\n'.
std::string SpeedrunJson(const SpeedrunLine& line);
// kDataLoss for anything that SpeedrunJson does not make.
absl::StatusOr<SpeedrunLine> ParseSpeedrunLine(absl::string_view text);
// Returns the file's lines, none if there is no file. A last line that was cut is left out; kDataLoss names another one
// that is damaged.
absl::StatusOr<std::vector<SpeedrunLine>> ReadSpeedrunLines(const std::string& path);

struct SpeedrunArm {
  std::string name;
  size_t reached = 0;
  Moments steps, cpu_seconds, value;
};
SpeedrunArm SummaryOfArm(const std::string& name, const std::vector<SpeedrunLine>& lines);

// Plain beside recipe. Runs that did not reach the quality count with their whole length, so that a ratio is a bound.
struct SpeedrunComparison {
  SpeedrunArm plain, recipe;
  double steps_ratio = 0, steps_p = 0;  // plain / recipe; NaN where an arm has too few runs
  double cpu_ratio = 0, cpu_p = 0;
};
SpeedrunComparison CompareArms(const std::vector<SpeedrunLine>& lines);

std::string SpeedrunTable(const SpeedrunComparison& comparison, absl::string_view goal);
std::string SpeedrunSummaryJson(const SpeedrunComparison& comparison, absl::string_view task);

}  // namespace composer
