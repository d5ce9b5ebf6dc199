// Unigram: the tokens whose scores sum to the most (Viterbi), as tokenizers and SentencePiece compute it. A character
// that no token begins with counts as the unknown token, 10 below the lowest score; several in a row are one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/text/double_array.h"
#include "data/tokenizers/model/token_model.h"

namespace composer {

struct UnigramOptions {
  std::optional<uint32_t> unknown;  // without it such characters vanish
  bool byte_fallback = false;       // unknown characters become tokens <0x00> to <0xFF>
  bool fuse_unknown = true;
  // Sums are in float, as SentencePiece's, instead of double, as those of tokenizers: ties fall differently.
  bool sums_in_float = false;
  // Of which the unknown token is 10 below; without it the lowest of all scores.
  std::optional<double> lowest_score;
};

class UnigramModel final : public TokenModel {
 public:
  // scores[id] is a token's log probability; tokens with NaN are never chosen.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

 protected:
  void EncodePiece(absl::string_view piece, ModelScratch& scratch) const override;

 private:
  template <typename Sum>
  void FillBest(absl::string_view piece, std::vector<Sum>& best, ModelScratch& scratch) const;
  void AddUnknown(absl::string_view piece, uint32_t begin, uint32_t end, std::vector<PieceToken>& tokens) const;

  static constexpr uint32_t kUnknown = 0xffffffff;
  const UnigramOptions options_;
  const std::vector<double> scores_;
  double unknown_score_ = 0;
  DoubleArray trie_;
  bool has_byte_tokens_ = false;
  std::array<uint32_t, 256> byte_ids_{};
};

}  // namespace composer
