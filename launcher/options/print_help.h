// What a command prints and returns: the text that --help or --version requests, or what its user did wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Writes `text` to stdout. Returns the exit code, which is 70 if stdout cannot be written.
int PrintHelp(const std::string& text);

// Prints the message (base/console.h). Returns exit_code::kUserError.
int UserError(absl::string_view message);

}  // namespace composer
