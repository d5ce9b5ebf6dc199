// SPDX-License-Identifier: Apache-2.0
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {

Encoding ByteTokenizer::Encode(absl::string_view text, bool add_special_tokens) const {
  Encoding encoding;
  for (const char c : text) {
    const auto at = static_cast<int64_t>(encoding.ids.size());
    encoding.ids.push_back(static_cast<unsigned char>(c));
    encoding.offsets.emplace_back(at, at + 1);
  }
  if (special_.eos && add_special_tokens) {
    encoding.ids.push_back(*special_.eos);
    encoding.offsets.emplace_back(text.size(), text.size());
  }
  return encoding;
}

std::string ByteTokenizer::Decode(absl::Span<const int64_t> tokens, bool /*skip_special_tokens*/) const {
  std::string text;
  for (const int64_t token : tokens) {
    if (token >= 0 && token < 256) text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace composer
