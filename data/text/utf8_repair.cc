// SPDX-License-Identifier: Apache-2.0
#include "data/text/utf8_repair.h"

#include <cstring>

namespace composer {
namespace {

struct Utf8Sequence {
  uint32_t length;
  bool is_valid;
};

// Returns the character at text[at], or the longest part of one.
Utf8Sequence SequenceAt(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xc2 || first > 0xf4) return {1, false};
  const uint32_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return {1, false};
  for (uint32_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {i, false};
  }
  return {length, true};
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Sequence sequence = SequenceAt(text, at);
    if (!sequence.is_valid) return false;
    at += sequence.length;
  }
  return true;
}

std::string RepairUtf8(absl::string_view text, std::vector<TextSpan>* origins) {
  std::string repaired;
  for (size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = SequenceAt(text, at);
    const absl::string_view added = sequence.is_valid ? text.substr(at, sequence.length) : "\xef\xbf\xbd";
    repaired.append(added.data(), added.size());
    const TextSpan span{static_cast<uint32_t>(at), static_cast<uint32_t>(at + sequence.length)};
    if (origins != nullptr) origins->insert(origins->end(), added.size(), span);
    at += sequence.length;
  }
  return repaired;
}

}  // namespace composer
