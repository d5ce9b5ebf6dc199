// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/model/wordpiece.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/strip.h"

namespace composer {

WordPieceModel::WordPieceModel(Vocabulary tokens, uint32_t unknown, const std::string& prefix, size_t max_characters)
    : TokenModel(std::move(tokens)), unknown_(unknown), max_characters_(max_characters) {
  std::vector<std::pair<absl::string_view, int32_t>> first, later;
  for (uint32_t id = 0; id < vocabulary().size(); ++id) {
    absl::string_view token = vocabulary().token(id);
    if (token.empty()) continue;
    first.emplace_back(token, static_cast<int32_t>(id));
    if (absl::ConsumePrefix(&token, prefix)) later.emplace_back(token, static_cast<int32_t>(id));
    SetLength(id, token.size());
  }
  first_ = DoubleArray(std::move(first));
  later_ = DoubleArray(std::move(later));
}

void WordPieceModel::EncodePiece(absl::string_view piece, ModelScratch& scratch) const {
  std::vector<PieceToken>& tokens = scratch.tokens;
  const auto size = static_cast<uint32_t>(piece.size());
  const auto unknown = [&] { tokens.assign(1, {unknown_, 0, size}); };
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  if (piece.size() > max_characters_ &&
      static_cast<size_t>(std::count_if(piece.begin(), piece.end(), begins)) > max_characters_)
    return unknown();
  for (uint32_t at = 0; at < size;) {
    const DoubleArray& trie = at == 0 ? first_ : later_;
    PieceToken longest{0, at, at};
    uint32_t node = DoubleArray::kRoot;
    for (uint32_t end = at; end < size && trie.Step(node, piece[end]);) {
      ++end;
      if (const int32_t id = trie.value(node); id >= 0) longest = {static_cast<uint32_t>(id), at, end};
    }
    if (longest.end == at) return unknown();
    tokens.push_back(longest);
    at = longest.end;
  }
}

WordLevelModel::WordLevelModel(Vocabulary tokens, uint32_t unknown) : TokenModel(std::move(tokens)), unknown_(unknown) {
  for (uint32_t id = 0; id < vocabulary().size(); ++id) SetLength(id, vocabulary().token(id).size());
}

void WordLevelModel::EncodePiece(absl::string_view piece, ModelScratch& scratch) const {
  scratch.tokens.push_back({vocabulary().Find(piece).value_or(unknown_), 0, static_cast<uint32_t>(piece.size())});
}

}  // namespace composer
