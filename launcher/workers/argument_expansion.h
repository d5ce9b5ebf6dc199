// Implements --expand-vars: replaces $NAME, ${NAME} and a leading ~ in a program's arguments with the worker's own
// environment, as the Python launcher always does (os.path.expandvars, expanduser). Here it is off by default, because
// a literal $ is common in passwords and regular expressions. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Returns `text` with variables expanded. Unset variables and ~user stay as written; ~ and ~/… become HOME.
std::string ExpandArgument(absl::string_view text, const Environment& environment);

}  // namespace composer
