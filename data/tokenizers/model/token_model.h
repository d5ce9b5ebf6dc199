// The part of a tokenizer that has a vocabulary: it turns a piece of text, such as a word, into tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/text/aligned_text.h"
#include "data/tokenizers/model/token_list.h"
#include "data/tokenizers/model/vocabulary.h"
#include "data/tokenizers/model/word_cache.h"

namespace composer {

// A token and the bytes of the piece that it stands for.
struct PieceToken {
  uint32_t id, begin, end;
};

// What one thread uses while it encodes; its contents never change what comes out.
struct ModelScratch {
  WordCache cache;
  std::vector<PieceToken> tokens;
  // Of BPE.
  std::vector<uint64_t> ranks;
  std::vector<uint32_t> left, right;
  std::vector<uint64_t> heap;
  // Of Unigram.
  std::vector<double> scores;
  std::vector<float> short_scores;
};

// Threads: any number at a time, each with its own scratch.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)), lengths_(vocabulary_.size()) {}
  virtual ~TokenModel() = default;
  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the tokens of these pieces of `text`, in order, and where they are in it if `tracks`.
  void Encode(absl::string_view text, absl::Span<const TextSpan> pieces, bool tracks, TokenList& out,
              ModelScratch& scratch) const;

 protected:
  // Appends the tokens of a piece, which is not empty, to scratch.tokens.
  virtual void EncodePiece(absl::string_view piece, ModelScratch& scratch) const = 0;
  // The bytes of text that a token stands for, as far as that is the same everywhere.
  void SetLength(uint32_t id, size_t length) { lengths_[id] = static_cast<uint32_t>(length); }

 private:
  void EncodeAnew(absl::string_view text, TextSpan piece, bool tracks, TokenList& out, ModelScratch& scratch) const;
  bool CanBeKept(const std::vector<PieceToken>& tokens, uint32_t size) const;
  void AddSpans(TextSpan piece, const uint32_t* ids, uint32_t count, TokenList& out) const;

  Vocabulary vocabulary_;
  std::vector<uint32_t> lengths_;
};

}  // namespace composer
