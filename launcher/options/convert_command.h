// `composer convert`, which rewrites other programs' files (config/convert.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// Writes the result to standard output or to --output, and what was left out and what is to be done to standard error.
// Returns 0 when the result can be launched as it is, 64 otherwise.
int ConvertCommand(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace composer
