// A list of runs as text for a terminal, and as JSON. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "views/run_filter.h"

namespace composer {

// Returns the metrics to show when the user names none: the training loss and up to two of evaluations. With patterns:
// the names that fit any of them, at most 50.
std::vector<std::string> MetricColumns(const std::vector<ListedRun>& runs, const std::vector<std::string>& patterns);

// One line for each run, `now` in Unix seconds for "3 min ago".
std::string RunsTable(const std::vector<ListedRun>& runs, const std::vector<std::string>& metrics, double now);

// The settings in which runs differ: a line for each, a column for each run, then lines for `metrics`.
std::string ComparisonTable(const std::vector<ListedRun>& runs, const std::vector<std::string>& metrics);

// {"runs":[{"name":…,"folder":…,"state":…,"step":…,"metrics":{…},"config":{…}}]}; NaN is null. With `patterns`, only
// metrics that fit one of them; `config` only where settings were read.
std::string RunsJson(const std::vector<ListedRun>& runs, const std::vector<std::string>& patterns);

// "12 s", "3 min", "5.2 h", "4 d".
std::string AgeText(double seconds);

}  // namespace composer
