// Prints what --help or --version asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// Writes `text` to stdout. Returns the exit code: 70 when stdout cannot be written.
int PrintHelp(const std::string& text);

}  // namespace composer
