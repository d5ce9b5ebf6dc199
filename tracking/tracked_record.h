// A line of metrics.jsonl as whatever sends or shows it elsewhere sees it: its times, and the metrics in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "views/read/metrics_reader.h"

namespace composer {

struct TrackedRecord {
  MetricRow row;
  std::vector<std::pair<std::string, double>> values;  // NaN where the file has null
};

// Adds to `record` what the line says. Returns false when the line is not a record.
bool ParseTrackedRecord(absl::string_view line, TrackedRecord& record);

}  // namespace composer
