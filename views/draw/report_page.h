// One HTML page about one run: what came of it, its curves, configuration, generations and failures. It has no scripts
// and loads nothing, so that it can be kept, mailed and opened anywhere. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "views/read/metrics_reader.h"
#include "views/read/run_info.h"

namespace composer {

struct ReportInput {
  RunInfo run;
  std::string config;               // config.yaml; "" if there is none
  std::vector<std::string> tables;  // lines of tables.jsonl: samples of data and generations
  std::vector<std::string> notes;   // what could not be read
  double now = 0;                   // Unix seconds
};

std::string ReportPage(const ReportInput& input, const MetricsReader& reader);

// Returns the share of the run's time in which kept steps were made: the seconds between neighbouring records of one
// generation, over the wall time of all launches. Steps that a restart repeated, start-up and recovery do not count. 0
// to 1; 0 when the times are unknown.
double KeptShare(const RunInfo& run, const std::vector<MetricRow>& rows);

}  // namespace composer
