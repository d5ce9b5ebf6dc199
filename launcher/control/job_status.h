// Renders a JobStatus as text for people, as JSON and in Prometheus's text format. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/control.pb.h"

namespace composer {

// Returns "training" for PHASE_TRAINING.
std::string PhaseName(int phase);

// Returns some lines, a table of the job's nodes if there are several, and a table of the ranks: those of all nodes if
// there are at most 256 ranks, else those of this node.
std::string DescribeStatus(const proto::JobStatus& status);

// The furthest step of the ranks of all nodes.
int64_t FurthestStep(const proto::JobStatus& status);

// Whether a rank is late: it trains and is more than two steps behind the furthest rank, or has not been heard of for
// 5 s. `composer top`, the dashboard and `behind` in the JSON are this.
bool IsBehind(const proto::RankStatus& rank, int64_t furthest);

// Returns one object with the names of control.proto, and `behind` of each rank. A loss that is not a number becomes
// null.
std::string StatusJson(const proto::JobStatus& status);

// Returns text format 0.0.4. Each metric carries the labels job and node; docs/monitoring.md lists them.
std::string PrometheusText(const proto::JobStatus& status);

// Escapes \, " and line feeds in a label's value, as the format requires.
std::string EscapeLabel(absl::string_view value);

}  // namespace composer
