// Tokens that are found in a text as they are, before the model sees the rest: <s>, [MASK], <|endoftext|>, …
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "data/text/aligned_text.h"

namespace composer {

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;  // only where no part of a word touches it
  bool lstrip = false;       // takes the spaces before it along
  bool rstrip = false;       // takes those behind it along
  bool normalized = true;    // is looked for in the normalised text
  bool special = false;      // left out by Decode with skip_special_tokens
};

// Finds tokens of one set: the leftmost, and there the longest.
class AddedTokenFinder {
 public:
  void Add(absl::string_view text, const AddedToken* token);
  bool empty() const { return tokens_.empty(); }
  // Calls use(span, null) for text between the tokens and use(span, token) for them, in order; no span is empty.
  void Split(absl::string_view text, absl::FunctionRef<void(TextSpan, const AddedToken*)> use) const;

 private:
  // Returns where from `at` on the first byte of a token stands, or the text's size.
  size_t NextFirstByte(absl::string_view text, size_t at) const;
  const AddedToken* LongestAt(absl::string_view text, size_t at, size_t& length) const;

  absl::flat_hash_map<std::string, const AddedToken*> tokens_;
  std::array<std::vector<size_t>, 256> lengths_;  // by the first byte, the longest first
  std::string first_bytes_;                       // each once
};

}  // namespace composer
