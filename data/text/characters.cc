// SPDX-License-Identifier: Apache-2.0
#include "data/text/characters.h"

#include <unicode/uchar.h>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

bool IsIdeograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

bool IsAsciiPunctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// Returns the categories of Unicode 8.0.
uint32_t OldCategory(char32_t c, uint32_t category) {
  if (c == 0x166d || c == 0x111c9) return U_GC_PO_MASK;
  if (c == 0x1734) return U_GC_MN_MASK;
  if (c == 0x1885 || c == 0x1886) return U_GC_LO_MASK;
  if (c == 0xa9bd) return U_GC_MC_MASK;
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 8 ? 0 : category;
}

uint16_t PropertiesOf(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  const uint32_t category = U_MASK(u_charType(code));
  const uint32_t old_category = OldCategory(c, category);
  uint16_t found = 0;
  const auto add = [&](bool holds, uint16_t property) {
    if (holds) found = static_cast<uint16_t>(found | property);
  };
  add((category & (U_GC_LU_MASK | U_GC_LT_MASK)) != 0, char_is::kUpper);
  add((category & U_GC_LL_MASK) != 0, char_is::kLower);
  add((category & (U_GC_LM_MASK | U_GC_LO_MASK)) != 0, char_is::kOtherLetter);
  add((category & U_GC_M_MASK) != 0, char_is::kMark);
  add((category & U_GC_N_MASK) != 0, char_is::kNumber);
  add(u_isUWhiteSpace(code) != 0, char_is::kSpace);
  add((old_category & U_GC_P_MASK) != 0 || IsAsciiPunctuation(c), char_is::kPunctuation);
  add((old_category & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0, char_is::kControl);
  add((old_category & U_GC_MN_MASK) != 0, char_is::kNonspacing);
  add(IsIdeograph(c), char_is::kIdeograph);
  add(c == '\r' || c == '\n', char_is::kLineEnd);
  add((category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || u_isUAlphabetic(code) != 0 || c == 0x200c ||
          c == 0x200d,
      char_is::kWord);
  return found;
}

}  // namespace

CharTable::CharTable() {
  absl::flat_hash_map<std::string, uint16_t> known;
  uint16_t used = 0;
  for (uint32_t block = 0; block < 0x1100; ++block) {
    uint16_t* values = blocks_ + (static_cast<size_t>(used) << 8);
    for (uint32_t i = 0; i < 256; ++i) values[i] = PropertiesOf(block << 8 | i);
    const auto [it, is_new] = known.emplace(std::string(reinterpret_cast<const char*>(values), 512), used);
    index_[block] = it->second;
    if (is_new) ++used;
  }
}

const CharTable& CharTable::Get() {
  static const CharTable* const table = new CharTable();
  return *table;
}

void AppendUtf8(char32_t c, std::string& text) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      add(0xe0 | c >> 12);
    } else {
      add(0xf0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3f));
    }
    add(0x80 | (c >> 6 & 0x3f));
  }
  add(0x80 | (c & 0x3f));
}

}  // namespace composer
