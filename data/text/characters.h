// Code points: UTF-8, and the properties by which tokenizers split text (Unicode 15.0, from ICU 72). Thread-safe.
//
// kPunctuation, kControl and kNonspacing are BERT's, whose reference (tokenizers 0.23) has the tables of Unicode 8.0:
// they hold for no younger character, and the six that have changed since are as they were.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// What a code point is; several may hold.
namespace char_is {
inline constexpr uint16_t kUpper = 1;         // Lu, Lt
inline constexpr uint16_t kLower = 2;         // Ll
inline constexpr uint16_t kOtherLetter = 4;   // Lm, Lo
inline constexpr uint16_t kMark = 8;          // M
inline constexpr uint16_t kNumber = 16;       // N
inline constexpr uint16_t kSpace = 32;        // White_Space
inline constexpr uint16_t kPunctuation = 64;  // P, and all of ASCII's
inline constexpr uint16_t kControl = 128;     // Cc, Cf, Co
inline constexpr uint16_t kNonspacing = 256;  // Mn
inline constexpr uint16_t kIdeograph = 512;   // the blocks that BERT splits
inline constexpr uint16_t kLineEnd = 1024;    // \r, \n
inline constexpr uint16_t kWord = 2048;       // Alphabetic, M, Nd, Pc and the joiners: \w
inline constexpr uint16_t kLetter = kUpper | kLower | kOtherLetter;
}  // namespace char_is

class CharTable {
 public:
  static const CharTable& Get();
  uint16_t operator[](char32_t c) const {
    return c < 0x110000 ? blocks_[(static_cast<size_t>(index_[c >> 8]) << 8) | (c & 255)] : uint16_t{0};
  }
  // Of ASCII and the rest of the first block, in one access.
  const uint16_t* first_block() const { return blocks_; }

 private:
  CharTable();
  uint16_t index_[0x1100];
  uint16_t blocks_[0x1100 * 256];  // equal blocks are stored once, at the front
};

struct CodePoint {
  char32_t value;
  uint32_t length;  // bytes
};
// Returns the code point at text[at], at < text.size(). The text must be valid UTF-8; of other text it returns some
// value, and a length that stays within the text.
inline CodePoint CodePointAt(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const size_t left = text.size() - at;
  if (first < 0x80 || left == 1) return {first, 1};
  if (first < 0xe0 || left == 2) return {(first & 0x1fU) << 6 | (byte(1) & 0x3fU), 2};
  if (first < 0xf0 || left == 3) return {(first & 0x0fU) << 12 | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU), 3};
  return {(first & 7U) << 18 | (byte(1) & 0x3fU) << 12 | (byte(2) & 0x3fU) << 6 | (byte(3) & 0x3fU), 4};
}
// Returns the code point that ends before text[end], end > 0.
inline CodePoint CodePointBefore(absl::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return CodePointAt(text.substr(0, end), at);
}
// Code points that no UTF-8 may hold become U+FFFD.
void AppendUtf8(char32_t c, std::string& text);

}  // namespace composer
