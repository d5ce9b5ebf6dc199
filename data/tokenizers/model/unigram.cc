// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/model/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "data/text/characters.h"

namespace composer {

UnigramModel::UnigramModel(Vocabulary tokens, std::vector<double> scores, UnigramOptions options)
    : TokenModel(std::move(tokens)), options_(options), scores_(std::move(scores)) {
  double lowest = std::numeric_limits<double>::infinity();
  std::vector<std::pair<absl::string_view, int32_t>> keys;
  for (uint32_t id = 0; id < vocabulary().size(); ++id) {
    if (std::isnan(scores_[id])) continue;
    lowest = std::min(lowest, scores_[id]);
    keys.emplace_back(vocabulary().token(id), static_cast<int32_t>(id));
    SetLength(id, vocabulary().token(id).size());
  }
  lowest = options_.lowest_score.value_or(lowest);
  unknown_score_ = options_.sums_in_float ? static_cast<float>(lowest) - 10.0F : lowest - 10;
  trie_ = DoubleArray(std::move(keys));
  has_byte_tokens_ = options_.byte_fallback;
  for (uint32_t byte = 0; byte < 256 && has_byte_tokens_; ++byte) {
    const auto id = vocabulary().Find(absl::StrFormat("<0x%02X>", byte));
    has_byte_tokens_ = id.has_value();
    if (!id) break;
    byte_ids_[byte] = *id;
    SetLength(*id, 1);
  }
}

// Leaves in scratch.left where the best token that ends at each byte begins, and in scratch.right which one it is.
template <typename Sum>
void UnigramModel::FillBest(absl::string_view piece, std::vector<Sum>& best, ModelScratch& scratch) const {
  const auto size = static_cast<uint32_t>(piece.size());
  constexpr uint32_t kNowhere = 0xffffffff;
  best.assign(size + 1, Sum{0});
  scratch.left.assign(size + 1, kNowhere);
  scratch.right.assign(size + 1, kUnknown);
  const auto offer = [&](uint32_t end, Sum sum, uint32_t begin, uint32_t id) {
    if (scratch.left[end] != kNowhere && !(sum > best[end])) return;
    best[end] = sum;
    scratch.left[end] = begin;
    scratch.right[end] = id;
  };
  for (uint32_t at = 0; at < size;) {
    const uint32_t next = at + CodePointAt(piece, at).length;
    const Sum so_far = best[at];
    bool covers_character = false;
    uint32_t node = DoubleArray::kRoot;
    for (uint32_t end = at; end < size && trie_.Step(node, piece[end]);) {
      ++end;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(end, static_cast<Sum>(scores_[static_cast<size_t>(id)]) + so_far, at, static_cast<uint32_t>(id));
      covers_character = covers_character || end == next;
    }
    if (!covers_character) offer(next, static_cast<Sum>(unknown_score_) + so_far, at, kUnknown);
    at = next;
  }
}

void UnigramModel::AddUnknown(absl::string_view piece, uint32_t begin, uint32_t end,
                              std::vector<PieceToken>& tokens) const {
  if (has_byte_tokens_) {
    for (uint32_t i = begin; i < end; ++i)
      tokens.push_back({byte_ids_[static_cast<unsigned char>(piece[i])], i, i + 1});
  } else if (options_.unknown) {
    tokens.push_back({*options_.unknown, begin, end});
  }
}

void UnigramModel::EncodePiece(absl::string_view piece, ModelScratch& scratch) const {
  if (options_.sums_in_float) {
    FillBest(piece, scratch.short_scores, scratch);
  } else {
    FillBest(piece, scratch.scores, scratch);
  }
  std::vector<PieceToken>& tokens = scratch.tokens;
  const auto is_unknown = [&](uint32_t id) { return id == kUnknown || (options_.unknown && id == *options_.unknown); };
  std::vector<PieceToken> backwards;
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0;) {
    const uint32_t begin = scratch.left[end], id = scratch.right[end];
    if (options_.fuse_unknown && is_unknown(id) && !backwards.empty() && is_unknown(backwards.back().id)) {
      backwards.back().begin = begin;
    } else {
      backwards.push_back({id, begin, end});
    }
    end = begin;
  }
  for (auto token = backwards.rbegin(); token != backwards.rend(); ++token) {
    if (is_unknown(token->id)) {
      AddUnknown(piece, token->begin, token->end, tokens);
    } else {
      tokens.push_back(*token);
    }
  }
}

}  // namespace composer
