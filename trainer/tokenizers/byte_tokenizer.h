// The tokenizer whose tokens are the bytes of the text, 0 to 255, as those of data/text_bytes.h. It has no special
// tokens unless `eos` adds one, 256, which ends a text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/tokenizer.h"

namespace composer {

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(bool eos = false) {
    if (eos) special_.eos = 256;
  }
  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return special_.eos ? 257 : 256; }
  const SpecialTokens& special_tokens() const override { return special_; }
  Encoding Encode(absl::string_view text, bool add_special_tokens = true) const override;
  // The end-of-text token has no text, whether it is skipped or not.
  std::string Decode(absl::Span<const int64_t> tokens, bool skip_special_tokens = true) const override;

 private:
  SpecialTokens special_;
};

}  // namespace composer
