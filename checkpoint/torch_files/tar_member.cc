// FindInTar of packed_file.h. Source: POSIX.1-2017, pax, "ustar Interchange Format".
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/torch_files/packed_file.h"

namespace composer {
namespace {

constexpr size_t kTarBlock = 512;

// Returns a number of octal digits, or big-endian bytes behind one with its highest bit set; nullopt if it is none.
std::optional<uint64_t> TarNumber(absl::string_view field) {
  uint64_t value = 0;
  if ((static_cast<uint8_t>(field[0]) & 0x80) != 0) {
    for (const char byte : field.substr(field.size() - 8)) value = value << 8 | static_cast<uint8_t>(byte);
    return value < uint64_t{1} << 62 ? std::optional(value) : std::nullopt;
  }
  for (const char digit : field) {
    if (digit == ' ' || digit == '\0') continue;
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(digit - '0');
  }
  return value;
}

bool IsTarHeader(absl::string_view header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<uint8_t>(header[i]);
  return TarNumber(header.substr(148, 8)) == sum;
}

}  // namespace

absl::StatusOr<std::pair<size_t, size_t>> FindInTar(absl::string_view archive) {
  std::pair<size_t, size_t> found;
  size_t files = 0;
  for (size_t at = 0; at + kTarBlock <= archive.size();) {
    const absl::string_view header = archive.substr(at, kTarBlock);
    if (header[0] == '\0') break;  // the end
    const std::optional<uint64_t> size = TarNumber(header.substr(124, 12));
    at += kTarBlock;
    if (!IsTarHeader(header) || !size.has_value() || *size > archive.size() - at)
      return absl::DataLossError(absl::StrCat("damaged archive: byte ", at - kTarBlock));
    const absl::string_view name = header.substr(0, header.substr(0, 100).find('\0'));
    if (header[156] == '0' || header[156] == '\0') {
      const bool is_composers = name == "composer_states.pt" || absl::EndsWith(name, "/composer_states.pt");
      found = {at, at + static_cast<size_t>(*size)};
      if (is_composers) return found;
      ++files;
    }
    at += std::min(archive.size() - at, (static_cast<size_t>(*size) + kTarBlock - 1) / kTarBlock * kTarBlock);
  }
  if (files != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the archive has ", files, " files and none is composer_states.pt: unpack it and name one"));
  }
  return found;
}

}  // namespace composer
