// What a scalar of a configuration means. Strict: a text in quotes is never a number, `yes` is not a boolean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "config/node.h"

namespace composer {

// Each: kInvalidArgument saying what was expected and what is there.
// Decimal, with `_` between digits; 1e3 and 2.5e6 where the value is whole.
absl::StatusOr<int64_t> ParseIntScalar(const ConfigNode& node);
// Finite decimal number.
absl::StatusOr<double> ParseDoubleScalar(const ConfigNode& node);
// true, false, and their spellings True, False, TRUE, FALSE.
absl::StatusOr<bool> ParseBoolScalar(const ConfigNode& node);
// Any scalar's text.
absl::StatusOr<std::string> ParseStringScalar(const ConfigNode& node);

}  // namespace composer
