// Words and their tokens, for one thread at a time: two tables of fixed size in which a new word takes the place of an
// older one, so that it neither grows nor slows down. Words of up to 15 bytes and 4 tokens take 32 bytes; others of 8
// to 46 bytes and up to 10 tokens 96.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

namespace composer {

class WordCache {
 public:
  struct ShortWord {
    uint64_t low = 0, high = 0;  // the bytes; the highest byte is the size and, above it, the number of tokens
    uint32_t ids[4];
    uint32_t count() const { return static_cast<uint32_t>(high >> 60); }
  };
  struct LongWord {
    uint8_t size = 0, count = 0;
    char bytes[46 + 8];  // 8 more, which are never used, so that ids begin at a multiple of 8
    uint32_t ids[10];
  };
  static constexpr uint32_t kMaxShort = 15, kMinLong = 8, kMaxLong = 46;
  static constexpr uint64_t kSizeMask = ~(uint64_t{0xf} << 60);

  // The place of a short word; it holds this word when Holds says so.
  struct Key {
    uint64_t low, high;
  };
  // `word` has 1 to 15 bytes; 16 bytes may be read when `has_slack`.
  static Key KeyOf(const char* word, uint32_t size, bool has_slack) {
    Key key{0, 0};
    if (has_slack) {
      std::memcpy(&key.low, word, 8);
      std::memcpy(&key.high, word + 8, 8);
      if (size < 8) {
        key.low &= (uint64_t{1} << (8 * size)) - 1;
        key.high = 0;
      } else {
        key.high &= (uint64_t{1} << (8 * (size - 8))) - 1;
      }
    } else {
      char bytes[16] = {};
      std::memcpy(bytes, word, size);
      std::memcpy(&key.low, bytes, 8);
      std::memcpy(&key.high, bytes + 8, 8);
    }
    key.high |= static_cast<uint64_t>(size) << 56;
    return key;
  }
  ShortWord& At(const Key& key) const {
    return short_[Mix(key.low * 0x9e3779b97f4a7c15ULL ^ key.high * 0xc2b2ae3d27d4eb4fULL) >> (64 - kShortBits)];
  }
  static bool Holds(const ShortWord& word, const Key& key) {
    return word.low == key.low && (word.high & kSizeMask) == key.high;
  }
  LongWord& At(const char* word, uint32_t size) const {
    uint64_t hash = size;
    for (uint32_t i = 0; i + 8 <= size; i += 8) hash = Mix((hash ^ Load(word + i)) * 0x9e3779b97f4a7c15ULL);
    hash = Mix((hash ^ Load(word + size - 8)) * 0xc2b2ae3d27d4eb4fULL);
    return long_[hash >> (64 - kLongBits)];
  }
  static bool Holds(const LongWord& entry, const char* word, uint32_t size) {
    return entry.size == size && std::memcmp(entry.bytes, word, size) == 0;
  }

 private:
  static constexpr int kShortBits = 17, kLongBits = 15;  // 4 MiB and 3 MiB
  static uint64_t Load(const char* at) {
    uint64_t value = 0;
    std::memcpy(&value, at, 8);
    return value;
  }
  static uint64_t Mix(uint64_t x) {
    x ^= x >> 32;
    return x * 0xd6e8feb86659fd93ULL;
  }
  const std::unique_ptr<ShortWord[]> short_ = std::make_unique<ShortWord[]>(size_t{1} << kShortBits);
  const std::unique_ptr<LongWord[]> long_ = std::make_unique<LongWord[]>(size_t{1} << kLongBits);
};

}  // namespace composer
