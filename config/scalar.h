// What a scalar of a configuration means. Strict: quoted text is never a number, `yes` is not a boolean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "config/node.h"

namespace composer {

// Each returns kInvalidArgument saying what was expected and what was found.
// Accepts decimal numbers with `_` between digits; 1e3 and 2.5e6 where the value is whole.
absl::StatusOr<int64_t> ParseIntScalar(const ConfigNode& node);
// Accepts finite decimal numbers.
absl::StatusOr<double> ParseDoubleScalar(const ConfigNode& node);
// Accepts true, false, and their spellings True, False, TRUE, FALSE.
absl::StatusOr<bool> ParseBoolScalar(const ConfigNode& node);
// Returns any scalar's text.
absl::StatusOr<std::string> ParseStringScalar(const ConfigNode& node);

}  // namespace composer
