// SentencePiece's table of replacements (`precompiled_charsmap`), and the two normalisers that use it.
// Source: sentencepiece 0.2, normalizer.cc; tokenizers 0.23, Precompiled. The table's trie is Darts-clone's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/double_array.h"
#include "data/tokenizers/normalize/normalizer.h"

namespace composer {

class Charsmap {
 public:
  // An empty table replaces nothing. kInvalidArgument: it is cut off, or points outside of itself.
  static absl::StatusOr<std::shared_ptr<const Charsmap>> Parse(absl::string_view bytes);
  struct Match {
    size_t length;  // bytes of the text; 0: no entry begins here
    absl::string_view replacement;
  };
  // Looks for the longest entry that `text` begins with, or the shortest.
  Match Find(absl::string_view text, bool longest) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

// As in tokenizer.json: graphemes of less than 6 bytes whose beginning has an entry, then characters, are replaced.
NormalizerPtr MakePrecompiled(std::shared_ptr<const Charsmap> map);

struct SentencePieceRules {
  std::shared_ptr<const Charsmap> map;
  bool add_dummy_prefix = true;          // U+2581 before the text
  bool remove_extra_whitespaces = true;  // at the ends, and all but one of several
  std::vector<std::string> symbols;      // are kept as they are
};
// As SentencePiece itself: entries replace the longest match, then spaces become U+2581.
NormalizerPtr MakeSentencePieceNormalizer(SentencePieceRules rules);

}  // namespace composer
