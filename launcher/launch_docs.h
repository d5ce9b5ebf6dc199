// What composer says about itself: --help, the manual page and the shell completions, from one table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "launcher/options/option_docs.h"

namespace composer {

ProgramDocs LaunchDocs();

// Returns the whole text of --help.
std::string LaunchHelp();

// `kind` is bash, zsh, fish or man.
std::string LaunchCompletion(absl::string_view kind);

}  // namespace composer
