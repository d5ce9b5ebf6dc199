// WordPiece: the longest token that begins a word, then the longest that goes on, to the word's end; a word that cannot
// be covered so is one unknown token. And WordLevel, whose tokens are whole words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/text/double_array.h"
#include "data/tokenizers/model/token_model.h"

namespace composer {

class WordPieceModel final : public TokenModel {
 public:
  // Words of more than max_characters are unknown. `prefix` stands before tokens that go on a word, as in ##ing.
  WordPieceModel(Vocabulary vocabulary, uint32_t unknown, const std::string& prefix, size_t max_characters);

 protected:
  void EncodePiece(absl::string_view piece, ModelScratch& scratch) const override;

 private:
  const uint32_t unknown_;
  const size_t max_characters_;
  DoubleArray first_, later_;
};

class WordLevelModel final : public TokenModel {
 public:
  WordLevelModel(Vocabulary vocabulary, uint32_t unknown);

 protected:
  void EncodePiece(absl::string_view piece, ModelScratch& scratch) const override;

 private:
  const uint32_t unknown_;
};

}  // namespace composer
