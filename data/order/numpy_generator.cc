// SPDX-License-Identifier: Apache-2.0
#include "data/order/numpy_generator.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/container/flat_hash_set.h"

namespace composer {
namespace {

// numpy's SeedSequence of one integer: a pool of four words, into which the seed is mixed.
class SeedPool {
 public:
  explicit SeedPool(uint64_t seed) {
    const std::array<uint32_t, 4> entropy = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
    for (size_t i = 0; i < 4; ++i) pool_[i] = HashMix(entropy[i]);
    for (size_t from = 0; from < 4; ++from) {
      for (size_t to = 0; to < 4; ++to) {
        if (from != to) pool_[to] = Mix(pool_[to], HashMix(pool_[from]));
      }
    }
  }
  // generate_state(4, uint64).
  std::array<uint64_t, 4> State() const {
    std::array<uint64_t, 4> words = {};
    uint32_t hash = 0x8b51f9dd;
    for (size_t i = 0; i < 8; ++i) {
      uint32_t value = pool_[i % 4] ^ hash;
      hash *= 0x58f38ded;
      value *= hash;
      value ^= value >> 16;
      words[i / 2] |= static_cast<uint64_t>(value) << (32 * (i % 2));
    }
    return words;
  }

 private:
  uint32_t HashMix(uint32_t value) {
    value ^= hash_;
    hash_ *= 0x931e8875;
    value *= hash_;
    return value ^ (value >> 16);
  }
  static uint32_t Mix(uint32_t x, uint32_t y) {
    const uint32_t mixed = 0xca01f9dd * x - 0x4973f715 * y;
    return mixed ^ (mixed >> 16);
  }

  uint32_t hash_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_ = {};
};

}  // namespace

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedPool(seed).State();
  const auto wide = [](uint64_t high, uint64_t low) { return (static_cast<unsigned __int128>(high) << 64) | low; };
  increment_ = (wide(words[2], words[3]) << 1) | 1;
  Next64();
  state_ += wide(words[0], words[1]);
  Next64();
}

void NumpyGenerator::Skip64(uint64_t count) {
  unsigned __int128 factor = kMultiplier, sum = increment_, all_factor = 1, all_sum = 0;
  for (; count > 0; count >>= 1) {
    if ((count & 1) != 0) {
      all_factor *= factor;
      all_sum = all_sum * factor + sum;
    }
    sum *= factor + 1;
    factor *= factor;
  }
  state_ = all_factor * state_ + all_sum;
}

void NumpyGenerator::Skip32(uint64_t count) {
  if (count > 0 && has_half_) {
    has_half_ = false;
    --count;
  }
  Skip64(count / 2);
  if (count % 2 != 0) Next32();
}

uint64_t NumpyGenerator::Bounded(uint64_t most) {
  if (most == 0) return 0;
  if (most == 0xffffffffU) return Next32();
  if (most < 0xffffffffU) {
    const uint32_t count = static_cast<uint32_t>(most) + 1;
    uint64_t product = uint64_t{Next32()} * count;
    if (static_cast<uint32_t>(product) < count) {
      const uint32_t threshold = (0xffffffffU - static_cast<uint32_t>(most)) % count;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{Next32()} * count;
    }
    return product >> 32;
  }
  const uint64_t count = most + 1;  // 0 for all 64 bits
  if (count == 0) return Next64();
  unsigned __int128 product = static_cast<unsigned __int128>(Next64()) * count;
  if (static_cast<uint64_t>(product) < count) {
    const uint64_t threshold = (~uint64_t{0} - most) % count;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<unsigned __int128>(Next64()) * count;
  }
  return static_cast<uint64_t>(product >> 64);
}

std::vector<int64_t> NumpyGenerator::Choice(int64_t count, int64_t chosen) {
  const auto shuffle = [&](std::vector<int64_t>& values, int64_t first) {
    for (int64_t i = static_cast<int64_t>(values.size()) - 1; i >= first; --i)
      std::swap(values[static_cast<size_t>(i)], values[Bounded(static_cast<uint64_t>(i))]);
  };
  std::vector<int64_t> result;
  if (count > 10000 && chosen > count / 50) {
    result.resize(static_cast<size_t>(count));
    std::iota(result.begin(), result.end(), 0);
    shuffle(result, std::max<int64_t>(count - chosen, 1));
    result.erase(result.begin(), result.end() - chosen);
    return result;
  }
  // Floyd's sampling.
  absl::flat_hash_set<int64_t> taken;
  for (int64_t j = count - chosen; j < count; ++j) {
    const int64_t drawn = static_cast<int64_t>(Bounded(static_cast<uint64_t>(j)));
    result.push_back(taken.insert(drawn).second ? drawn : j);
    if (result.back() == j) taken.insert(j);
  }
  shuffle(result, 1);
  return result;
}

std::vector<uint32_t> NumpyGenerator::Permutation(uint32_t count) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0U);
  Shuffle(absl::MakeSpan(values));
  return values;
}

}  // namespace composer
