// Prints the text that --help or --version requests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// Writes `text` to stdout. Returns the exit code, which is 70 if stdout cannot be written.
int PrintHelp(const std::string& text);

}  // namespace composer
