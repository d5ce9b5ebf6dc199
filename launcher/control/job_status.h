// A JobStatus as text for people, as JSON and as Prometheus's text format. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/control.pb.h"

namespace composer {

// "training" for PHASE_TRAINING.
std::string PhaseName(int phase);

// Some lines, a table of the job's nodes when there are several, and one of the ranks: of all nodes when there are at most
// 256, else of this one.
std::string DescribeStatus(const proto::JobStatus& status);

// One object; names as in control.proto. A loss that is no number is null.
std::string StatusJson(const proto::JobStatus& status);

// Text format 0.0.4. Each metric carries the labels job and node; docs/monitoring.md lists them.
std::string PrometheusText(const proto::JobStatus& status);

// A label's value as the format wants it: \, " and line feeds escaped.
std::string EscapeLabel(absl::string_view value);

}  // namespace composer
