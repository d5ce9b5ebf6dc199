// A line of an MLPerf result file:
//   :::MLLOG {"namespace": "", "time_ms": 1793271123456, "event_type": "POINT_IN_TIME", "key": "seed", "value": 17,
//             "metadata": {"file": "mlperf.cc", "lineno": 42}}
// Source: https://github.com/mlcommons/logging (4.1), mlperf_logging/mllog/mllog.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <source_location>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

enum class MlperfEvent { kPointInTime, kIntervalStart, kIntervalEnd };

// Returns the line with '\n'. metadata is an object, which gets the place in the source that wrote the line as its
// first fields.
std::string MlperfLine(absl::Time now, MlperfEvent event, absl::string_view key, const nlohmann::ordered_json& value,
                       const nlohmann::ordered_json& metadata = nlohmann::ordered_json::object(),
                       const std::source_location& where = std::source_location::current());

}  // namespace composer
