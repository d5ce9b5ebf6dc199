// What the launcher itself says to people: lines on stderr that begin with "composer: ".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"

namespace composer {

// Writes "composer: <text>\n" at once, so that it is not torn by the output of the workers.
void Tell(absl::string_view text);

// Columns of the terminal on stderr; 0 when it is none.
int TerminalColumns();

}  // namespace composer
