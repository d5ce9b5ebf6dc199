// Is a text valid UTF-8? Names travel in protocol buffers and JSON, which take nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace composer {

// Where the first byte is that does not belong to valid UTF-8 (RFC 3629: no overlong forms, no surrogates, at most
// U+10FFFF); npos: nowhere.
size_t FirstBadUtf8(absl::string_view text);

}  // namespace composer
