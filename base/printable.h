// Makes text from elsewhere (names, manifests, messages of peers) safe for a terminal. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Makes one line: control characters (C0, DEL, and C1 as UTF-8 writes it) and bytes that are not UTF-8 become \xNN, a
// line feed \n and a tab \t; everything else is kept.
std::string Printable(absl::string_view text);

// Does the same for text of several lines: line feeds and tabs are kept.
std::string PrintableText(absl::string_view text);

}  // namespace composer
