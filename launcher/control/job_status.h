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

// Returns one object with the names of control.proto. A loss that is not a number becomes null.
std::string StatusJson(const proto::JobStatus& status);

// Returns text format 0.0.4. Each metric carries the labels job and node; docs/monitoring.md lists them.
std::string PrometheusText(const proto::JobStatus& status);

// Escapes \, " and line feeds in a label's value, as the format requires.
std::string EscapeLabel(absl::string_view value);

}  // namespace composer
