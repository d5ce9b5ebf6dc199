// Checks for valid UTF-8. Names are sent in protocol buffers and JSON, which take nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace composer {

// Returns the index of the first byte that does not belong to valid UTF-8 (RFC 3629: no overlong forms, no surrogates,
// at most U+10FFFF); npos when there is none.
size_t FirstBadUtf8(absl::string_view text);

}  // namespace composer
