// `composer methods`: what there is to make training better or cheaper, from the cards of docs/methods.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Returns a line for each card: its name and what sums it up.
std::string MethodIndex(size_t columns);
// Returns the card, and the keys of what has this name in a job's file. kInvalidArgument with the nearest name.
absl::StatusOr<std::string> DescribeMethod(absl::string_view name, size_t columns);

// Prints the index, or the card of the name given. Returns 0, or 64 for wrong arguments.
int MethodsCommand(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace composer
