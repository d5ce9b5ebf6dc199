// What the launcher itself says to people: lines on stderr that begin with "composer: ".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

// Writes "composer: <text>\n" at once, so that it is not torn by the output of the workers.
void Tell(absl::string_view text);

// Columns of the terminal on stderr; 0 when it is none.
int TerminalColumns();

// Whether what goes to a stream may be coloured: to a terminal, unless NO_COLOR is set to something or TERM is dumb;
// elsewhere only with CLICOLOR_FORCE set to something but 0. Pure.
bool WantsColour(bool is_terminal, const Environment& environment);

}  // namespace composer
