// SPDX-License-Identifier: Apache-2.0
#include "storage/checksum.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace composer {

uint64_t Xxh3(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string ChecksumText(uint64_t checksum) { return absl::StrCat(absl::Hex(checksum, absl::kZeroPad16)); }

std::optional<uint64_t> ParseChecksum(absl::string_view text) {
  if (text.size() != 16) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value * 16 + static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

}  // namespace composer
