// Makes any bytes valid UTF-8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"

namespace composer {

// Returns whether the text is valid UTF-8; of ASCII eight bytes at a time.
bool IsUtf8(absl::string_view text);

// Each longest part that could begin a character but does not becomes one U+FFFD, as in Python and Rust. `origins`, if
// not null, gets for each byte that is returned the bytes of `text` that its character stands for.
std::string RepairUtf8(absl::string_view text, std::vector<TextSpan>* origins = nullptr);

}  // namespace composer
