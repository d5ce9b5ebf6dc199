// The table of the launcher's flags, under its headings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/options/launch_options.h"

namespace composer {

// Returns the table. Its setters write to `options`, which must outlive them.
std::vector<OptionGroup> LaunchOptionTable(LaunchOptions& options);

}  // namespace composer
