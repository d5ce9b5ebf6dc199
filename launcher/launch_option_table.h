// The table of the launcher's flags, under its headings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/launch_options.h"

namespace composer {

// The setters write to `options`, which must outlive them.
std::vector<OptionGroup> LaunchOptionTable(LaunchOptions& options);

// Setters of the forms that only launchers know. N or MIN:MAX.
OptionSetter IntoNodes(int* min, int* max);
// From 0 to 30 days.
OptionSetter IntoSeconds(double* target);
OptionSetter IntoStreams(StreamChoice* target);

}  // namespace composer
