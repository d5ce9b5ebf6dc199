// What the metrics in metrics.jsonl mean, by name: the table that docs/metrics.md is made of
// (tools/check_reference_doc.py) and from which `composer report` explains its curves. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

struct MetricMeaning {
  absl::string_view name;     // `<…>` stands for any text
  absl::string_view source;   // what logs it: "always", or the callback, algorithm or key
  absl::string_view meaning;  // with its unit
};

// Returns the first entry that fits the name; null for a metric of somebody's own.
const MetricMeaning* FindMeaning(const std::string& name);

}  // namespace composer
