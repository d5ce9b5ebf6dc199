// The state of a callback as one flat JSON object of numbers: {"total_eval_seconds": 12.5}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

// Values must be finite. Doubles are restored bit for bit.
std::string SaveNumbers(std::initializer_list<std::pair<absl::string_view, double>> numbers);
// Fills every pointer, or none: kInvalidArgument, with the name, when one is missing or not a number. Ignores other
// names.
absl::Status LoadNumbers(absl::string_view json, std::initializer_list<std::pair<absl::string_view, double*>> numbers);

}  // namespace composer
