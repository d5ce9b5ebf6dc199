// Byte-pair encoding: a piece's symbols are merged, the pair of the lowest rank first and the leftmost among equals,
// until no pair can be merged. Symbols are bytes, or characters with a fallback to bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "data/tokenizers/model/token_model.h"

namespace composer {

struct BpeMerge {
  uint32_t left, right, rank, merged;
};

struct BpeOptions {
  // Symbols are bytes; the vocabulary's tokens are given as bytes.
  bool of_bytes = false;
  std::optional<uint32_t> unknown;             // for characters that are not tokens; without it they vanish
  bool fuse_unknown = false;                   // one token for several in a row
  bool byte_fallback = false;                  // such characters become tokens <0x00> to <0xFF>
  bool ignore_merges = false;                  // a piece that is a token is that token
  absl::flat_hash_set<uint32_t> whole_pieces;  // the same for these tokens alone
  std::string continuing_prefix;               // stands in tokens before symbols that do not begin a piece
  std::string end_suffix;                      // stands in tokens after the symbol that ends a piece
};

// Which pairs of tokens are merged, with their rank and what they become: a hash table that is made once.
class PairTable {
 public:
  static constexpr uint64_t kNone = ~uint64_t{0};
  PairTable() : PairTable(0) {}
  explicit PairTable(size_t pairs) {
    while ((size_t{1} << bits_) < pairs * 2) ++bits_;
    slots_.resize(size_t{1} << bits_);
  }
  // Of a pair that is added twice the last counts. At most as many pairs as the constructor was told.
  void Add(uint32_t left, uint32_t right, uint32_t rank, uint32_t merged) {
    Slot& slot = slots_[PlaceOf(Key(left, right))];
    slot = {Key(left, right), static_cast<uint64_t>(rank) << 32 | merged};
  }
  // Returns the rank in the upper half and the merged token in the lower one; kNone, larger than all, for no such pair.
  uint64_t Find(uint32_t left, uint32_t right) const { return slots_[PlaceOf(Key(left, right))].value; }

 private:
  struct Slot {
    uint64_t key = kNone;
    uint64_t value = kNone;
  };
  static uint64_t Key(uint32_t left, uint32_t right) { return static_cast<uint64_t>(left) << 32 | right; }
  // Returns the slot that holds the key, or the free one where it belongs.
  size_t PlaceOf(uint64_t key) const {
    const size_t mask = (size_t{1} << bits_) - 1;
    uint64_t mixed = key * 0x9e3779b97f4a7c15ULL;
    mixed ^= mixed >> 32;
    size_t place = (mixed * 0xd6e8feb86659fd93ULL) >> (64 - bits_);
    while (slots_[place].key != key && slots_[place].key != kNone) place = (place + 1) & mask;
    return place;
  }
  int bits_ = 4;
  std::vector<Slot> slots_;
};

class BpeModel final : public TokenModel {
 public:
  BpeModel(Vocabulary vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options);

 protected:
  void EncodePiece(absl::string_view piece, ModelScratch& scratch) const override;

 private:
  void AddByteSymbols(absl::string_view piece, std::vector<PieceToken>& tokens) const;
  void AddCharacterSymbols(absl::string_view piece, std::vector<PieceToken>& tokens) const;
  bool AddByteTokens(absl::string_view symbol, uint32_t at, std::vector<PieceToken>& tokens) const;
  void MergeFew(std::vector<PieceToken>& tokens, ModelScratch& scratch) const;
  void MergeMany(std::vector<PieceToken>& tokens, ModelScratch& scratch) const;

  const BpeOptions options_;
  PairTable pairs_;
  static constexpr uint32_t kMissing = 0xffffffff;
  std::array<uint32_t, 256> byte_ids_;   // of bytes, or of the tokens <0x00> to <0xFF>
  std::array<uint32_t, 128> ascii_ids_;  // of characters
};

// Returns the merges of a vocabulary whose numbers are ranks, as tiktoken's: every pair that makes a token.
std::vector<BpeMerge> MergesOfRanks(const Vocabulary& vocabulary);

// Returns whether no token has `mark` behind another character, so that BPE never merges across that place.
bool OnlyLeads(const Vocabulary& vocabulary, absl::string_view mark);

}  // namespace composer
