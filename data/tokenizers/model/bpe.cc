// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/model/bpe.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "data/text/characters.h"

namespace composer {

BpeModel::BpeModel(Vocabulary tokens, const std::vector<BpeMerge>& merges, BpeOptions options)
    : TokenModel(std::move(tokens)), options_(std::move(options)), pairs_(merges.size()) {
  for (const BpeMerge& merge : merges) pairs_.Add(merge.left, merge.right, merge.rank, merge.merged);
  byte_ids_.fill(kMissing);
  ascii_ids_.fill(kMissing);
  for (uint32_t id = 0; id < vocabulary().size(); ++id) {
    absl::string_view token = vocabulary().token(id);
    absl::ConsumePrefix(&token, options_.continuing_prefix);
    absl::ConsumeSuffix(&token, options_.end_suffix);
    SetLength(id, token.size());
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const std::string name =
        options_.of_bytes ? std::string(1, static_cast<char>(byte)) : absl::StrFormat("<0x%02X>", byte);
    if (const auto id = vocabulary().Find(name)) {
      byte_ids_[byte] = *id;
      if (options_.byte_fallback) SetLength(*id, 1);
    }
    if (byte >= 128) continue;
    if (const auto id = vocabulary().Find(std::string(1, static_cast<char>(byte)))) ascii_ids_[byte] = *id;
  }
}

void BpeModel::AddByteSymbols(absl::string_view piece, std::vector<PieceToken>& tokens) const {
  for (uint32_t i = 0; i < piece.size(); ++i) {
    uint32_t id = byte_ids_[static_cast<unsigned char>(piece[i])];
    if (i + 1 == piece.size() && !options_.end_suffix.empty())
      id = vocabulary().Find(absl::StrCat(piece.substr(i), options_.end_suffix)).value_or(kMissing);
    if (id != kMissing) {
      tokens.push_back({id, i, i + 1});
    } else if (options_.unknown) {
      tokens.push_back({*options_.unknown, i, i + 1});
    }
  }
}

bool BpeModel::AddByteTokens(absl::string_view symbol, uint32_t at, std::vector<PieceToken>& tokens) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : symbol) {
    if (byte_ids_[static_cast<unsigned char>(byte)] == kMissing) return false;
  }
  for (uint32_t i = 0; i < symbol.size(); ++i)
    tokens.push_back({byte_ids_[static_cast<unsigned char>(symbol[i])], at + i, at + i + 1});
  return true;
}

void BpeModel::AddCharacterSymbols(absl::string_view piece, std::vector<PieceToken>& tokens) const {
  const bool is_plain = options_.continuing_prefix.empty() && options_.end_suffix.empty();
  bool after_unknown = false;
  for (uint32_t at = 0; at < piece.size();) {
    const uint32_t end = at + CodePointAt(piece, at).length;
    uint32_t id = kMissing;
    if (is_plain && end - at == 1) {
      id = ascii_ids_[static_cast<unsigned char>(piece[at]) & 127];
    } else if (is_plain) {
      id = vocabulary().Find(piece.substr(at, end - at)).value_or(kMissing);
    } else {
      id = vocabulary()
               .Find(absl::StrCat(at == 0 ? "" : options_.continuing_prefix, piece.substr(at, end - at),
                                  end == piece.size() ? options_.end_suffix : ""))
               .value_or(kMissing);
    }
    if (id != kMissing) {
      tokens.push_back({id, at, end});
      after_unknown = false;
    } else if (!AddByteTokens(piece.substr(at, end - at), at, tokens) && options_.unknown) {
      if (after_unknown && options_.fuse_unknown) {
        tokens.back().end = end;
      } else {
        tokens.push_back({*options_.unknown, at, end});
      }
      after_unknown = true;
    }
    at = end;
  }
}

// Looks at all pairs for each merge.
void BpeModel::MergeFew(std::vector<PieceToken>& tokens, ModelScratch& scratch) const {
  PieceToken* const token = tokens.data();
  size_t size = tokens.size();
  std::vector<uint64_t>& ranks = scratch.ranks;
  ranks.resize(size);
  for (size_t i = 0; i + 1 < size; ++i) ranks[i] = pairs_.Find(token[i].id, token[i + 1].id);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (ranks[i] >> 32 < ranks[best] >> 32) best = i;
    }
    if (ranks[best] == PairTable::kNone) break;
    token[best].id = static_cast<uint32_t>(ranks[best]);
    token[best].end = token[best + 1].end;
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      token[i] = token[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (best + 1 < size) ranks[best] = pairs_.Find(token[best].id, token[best + 1].id);
    if (best > 0) ranks[best - 1] = pairs_.Find(token[best - 1].id, token[best].id);
  }
  tokens.resize(size);
}

// Keeps the pairs in a heap by rank and place: for pieces that are so long that their square would be felt.
void BpeModel::MergeMany(std::vector<PieceToken>& tokens, ModelScratch& scratch) const {
  const auto size = static_cast<uint32_t>(tokens.size());
  std::vector<uint32_t>&left = scratch.left, &right = scratch.right;
  std::vector<uint64_t>& heap = scratch.heap;  // rank and place
  left.resize(size + 1);
  right.resize(size + 1);
  heap.clear();
  const auto pair_at = [&](uint32_t i) {
    return right[i] == size ? PairTable::kNone : pairs_.Find(tokens[i].id, tokens[right[i]].id);
  };
  const auto push = [&](uint32_t i) {
    if (const uint64_t pair = pair_at(i); pair != PairTable::kNone) {
      heap.push_back((pair >> 32) << 32 | i);
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
    }
  };
  for (uint32_t i = 0; i < size; ++i) {
    left[i] = i - 1;  // of the first: the largest number, which is not a place
    right[i] = i + 1;
  }
  for (uint32_t i = 0; i < size; ++i) push(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<uint32_t>(top);
    if (right[i] == 0) continue;  // it is part of another by now
    const uint64_t pair = pair_at(i);
    if (pair == PairTable::kNone || pair >> 32 != top >> 32) continue;  // another pair stands there by now
    const uint32_t next = right[i];
    tokens[i].id = static_cast<uint32_t>(pair);
    tokens[i].end = tokens[next].end;
    right[i] = right[next];
    right[next] = 0;
    if (right[i] < size) left[right[i]] = i;
    push(i);
    if (left[i] < size) push(left[i]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < size; i = right[i]) tokens[kept++] = tokens[i];
  tokens.resize(kept);
}

void BpeModel::EncodePiece(absl::string_view piece, ModelScratch& scratch) const {
  std::vector<PieceToken>& tokens = scratch.tokens;
  if (options_.ignore_merges || !options_.whole_pieces.empty()) {
    const auto id = vocabulary().Find(piece);
    if (id && (options_.ignore_merges || options_.whole_pieces.contains(*id))) {
      tokens.push_back({*id, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  if (options_.of_bytes) {
    AddByteSymbols(piece, tokens);
  } else {
    AddCharacterSymbols(piece, tokens);
  }
  if (tokens.size() <= 64) {
    MergeFew(tokens, scratch);
  } else {
    MergeMany(tokens, scratch);
  }
}

std::vector<BpeMerge> MergesOfRanks(const Vocabulary& vocabulary) {
  std::vector<BpeMerge> merges;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    const absl::string_view token = vocabulary.token(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const auto left = vocabulary.Find(token.substr(0, cut));
      if (!left) continue;
      const auto right = vocabulary.Find(token.substr(cut));
      if (right) merges.push_back({*left, *right, id, id});
    }
  }
  return merges;
}

bool OnlyLeads(const Vocabulary& vocabulary, absl::string_view mark) {
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    absl::string_view token = vocabulary.token(id);
    while (absl::ConsumePrefix(&token, mark)) {
    }
    if (absl::StrContains(token, mark)) return false;
  }
  return true;
}

}  // namespace composer
