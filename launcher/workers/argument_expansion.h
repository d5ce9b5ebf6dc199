// --expand-vars: $NAME, ${NAME} and a leading ~ in a program's arguments, as the Python launcher always replaces them
// (os.path.expandvars, expanduser) with the worker's own environment. Here only when asked: a literal $ is common in
// passwords and regular expressions. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Variables that are not set stay as written, and so does ~user; ~ and ~/… become HOME.
std::string ExpandArgument(absl::string_view text, const Environment& environment);

}  // namespace composer
