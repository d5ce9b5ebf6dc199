// The part of a tokenizer that has a vocabulary: it turns a piece of text, such as a word, into tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/text/aligned_text.h"
#include "data/tokenizers/model/vocabulary.h"
#include "data/tokenizers/model/word_cache.h"

namespace composer {

// The tokens of a text: a buffer that grows without being filled first.
struct TokenList {
  // Makes room for `more` ids beyond size() and returns where they go; then count them with Add.
  uint32_t* Room(size_t more) {
    if (size_ + more > capacity_) {
      capacity_ = std::max(size_ + more, capacity_ * 2);
      auto larger = std::make_unique_for_overwrite<uint32_t[]>(capacity_);
      std::copy_n(ids_.get(), size_, larger.get());
      ids_ = std::move(larger);
    }
    return ids_.get() + size_;
  }
  void Add(size_t count) { size_ += count; }
  void Push(uint32_t id) {
    *Room(1) = id;
    ++size_;
  }
  void Clear() {
    size_ = 0;
    spans.clear();
  }
  size_t size() const { return size_; }
  const uint32_t* ids() const { return ids_.get(); }

  std::vector<TextSpan> spans;  // of each token, if they are wanted

 private:
  std::unique_ptr<uint32_t[]> ids_;
  size_t size_ = 0, capacity_ = 0;
};

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
