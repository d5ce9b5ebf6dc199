// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <cstddef>

#include "absl/strings/str_format.h"

namespace composer {
namespace {

unsigned char At(absl::string_view text, size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; }

// Returns the length of the printable UTF-8 character at the start of `text`; 0 when there is none.
size_t PrintableLength(absl::string_view text) {
  const unsigned char first = At(text, 0), second = At(text, 1);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((At(text, i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool outside =
      (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);  // surrogates, > U+10FFFF
  const bool control = first == 0xc2 && second < 0xa0;
  return overlong || outside || control ? 0 : length;
}

std::string Escaped(absl::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = PrintableLength(text);
    const bool keep = length > 0 || (lines && (text[0] == '\n' || text[0] == '\t'));
    const size_t taken = length > 0 ? length : 1;
    if (keep) {
      result.append(text.data(), taken);
    } else if (text[0] == '\n' || text[0] == '\t') {
      result += text[0] == '\n' ? "\\n" : "\\t";
    } else {
      absl::StrAppendFormat(&result, "\\x%02x", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(taken);
  }
  return result;
}

}  // namespace

std::string Printable(absl::string_view text) { return Escaped(text, /*lines=*/false); }
std::string PrintableText(absl::string_view text) { return Escaped(text, /*lines=*/true); }

}  // namespace composer
