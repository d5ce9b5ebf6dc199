// "Did you mean …?": finds the known name nearest to what the user wrote.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Returns the smallest number of insertions, deletions, substitutions and swaps of neighbours that turns a into b.
int EditDistance(absl::string_view a, absl::string_view b);

// Returns the known name with the smallest distance, ignoring case and treating `-` and `_` as equal; "" when none is
// near enough (at most a third of the longer name, at least 1).
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

// Returns " (did you mean `x`?)", or "" when no name is near.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known);

}  // namespace composer
