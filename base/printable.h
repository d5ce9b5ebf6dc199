// Text from elsewhere (names, manifests, messages of peers) made safe for a terminal. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// One line: control characters (C0, DEL, and C1 as UTF-8 writes it) and bytes that are not UTF-8 become \xNN, a line feed
// \n and a tab \t; everything else stays.
std::string Printable(absl::string_view text);

// The same for text of several lines: line feeds and tabs stay.
std::string PrintableText(absl::string_view text);

}  // namespace composer
