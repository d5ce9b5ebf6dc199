// Which pairs of tokens BPE merges, with their rank and what they become: a hash table that is made once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace composer {

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

}  // namespace composer
