// XXH3 (64 bits): the checksum of everything a checkpoint stores. About 10 GB/s per core; detects accidents, not
// attacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

uint64_t Xxh3(absl::string_view bytes);

// Converts to 16 lower-case hexadecimal digits, and back: nullopt for anything else, so that each checksum has one
// spelling.
std::string ChecksumText(uint64_t checksum);
std::optional<uint64_t> ParseChecksum(absl::string_view text);

}  // namespace composer
