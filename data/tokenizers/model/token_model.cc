// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/model/token_model.h"

namespace composer {

void TokenModel::Encode(absl::string_view text, absl::Span<const TextSpan> pieces, bool tracks, TokenList& out,
                        ModelScratch& scratch) const {
  const WordCache& cache = scratch.cache;
  for (const TextSpan piece : pieces) {
    const uint32_t size = piece.end - piece.begin;
    const char* const word = text.data() + piece.begin;
    const uint32_t* found = nullptr;
    uint32_t count = 0;
    if (size <= WordCache::kMaxShort) {
      if (size == 0) continue;
      const WordCache::Key key = WordCache::KeyOf(word, size, text.size() - piece.begin >= 16);
      const WordCache::ShortWord& entry = cache.At(key);
      if (WordCache::Holds(entry, key)) {
        count = entry.count();
        uint32_t* room = out.Room(4);
        std::memcpy(room, entry.ids, sizeof(entry.ids));
        found = entry.ids;
      }
    }
    if (found == nullptr && size >= WordCache::kMinLong && size <= WordCache::kMaxLong) {
      const WordCache::LongWord& entry = cache.At(word, size);
      if (WordCache::Holds(entry, word, size)) {
        count = entry.count;
        std::memcpy(out.Room(10), entry.ids, sizeof(entry.ids));
        found = entry.ids;
      }
    }
    if (found == nullptr) {
      EncodeAnew(text, piece, tracks, out, scratch);
      continue;
    }
    out.Add(count);
    if (tracks) AddSpans(piece, found, count, out);
  }
}

void TokenModel::AddSpans(TextSpan piece, const uint32_t* ids, uint32_t count, TokenList& out) const {
  uint32_t at = piece.begin;
  for (uint32_t i = 0; i < count; ++i) {
    out.spans.push_back({at, at + lengths_[ids[i]]});
    at += lengths_[ids[i]];
  }
}

// Returns whether the spans follow from the ids.
bool TokenModel::CanBeKept(const std::vector<PieceToken>& tokens, uint32_t size) const {
  uint32_t at = 0;
  for (const PieceToken& token : tokens) {
    if (token.begin != at || token.end - token.begin != lengths_[token.id]) return false;
    at = token.end;
  }
  return at == size;
}

void TokenModel::EncodeAnew(absl::string_view text, TextSpan piece, bool tracks, TokenList& out,
                            ModelScratch& scratch) const {
  std::vector<PieceToken>& tokens = scratch.tokens;
  tokens.clear();
  const uint32_t size = piece.end - piece.begin;
  const char* const word = text.data() + piece.begin;
  EncodePiece(text.substr(piece.begin, size), scratch);
  uint32_t* room = out.Room(tokens.size());
  for (const PieceToken& token : tokens) {
    *room++ = token.id;
    if (tracks) out.spans.push_back({piece.begin + token.begin, piece.begin + token.end});
  }
  out.Add(tokens.size());
  if (size > WordCache::kMaxLong || tokens.size() > 10 || !CanBeKept(tokens, size)) return;
  if (size <= WordCache::kMaxShort && tokens.size() <= 4) {
    const WordCache::Key key = WordCache::KeyOf(word, size, false);
    WordCache::ShortWord& entry = scratch.cache.At(key);
    entry.low = key.low;
    entry.high = key.high | static_cast<uint64_t>(tokens.size()) << 60;
    for (size_t i = 0; i < tokens.size(); ++i) entry.ids[i] = tokens[i].id;
    return;
  }
  if (size < WordCache::kMinLong) return;
  WordCache::LongWord& entry = scratch.cache.At(word, size);
  entry.size = static_cast<uint8_t>(size);
  entry.count = static_cast<uint8_t>(tokens.size());
  std::memcpy(entry.bytes, word, size);
  for (size_t i = 0; i < tokens.size(); ++i) entry.ids[i] = tokens[i].id;
}

}  // namespace composer
