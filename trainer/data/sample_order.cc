// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/sample_order.h"

#include <numeric>

#include "trainer/core/random.h"

namespace composer {
namespace {

// The round function: returns the upper `bits` bits of a mix of half and key.
uint64_t Round(uint64_t half, uint64_t key, int bits) {
  if (bits == 0) return 0;
  uint64_t x = (half ^ key) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 29)) * 0x94d049bb133111ebULL;
  return (x ^ (x >> 32)) >> 8 & ((uint64_t{1} << bits) - 1);
}

int BitsFor(uint64_t size) {
  int bits = 0;
  while ((uint64_t{1} << bits) < size) ++bits;
  return bits;
}

class SequentialOrder final : public SampleOrder {
 public:
  explicit SequentialOrder(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void Read(int64_t /*epoch*/, int64_t begin, absl::Span<int64_t> ids) const override {
    std::iota(ids.begin(), ids.end(), begin);
  }

 private:
  int64_t size_;
};

class ShuffledOrder final : public SampleOrder {
 public:
  ShuffledOrder(int64_t size, uint64_t seed) : size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }
  void Read(int64_t epoch, int64_t begin, absl::Span<int64_t> ids) const override {
    const EpochPermutation permutation(size_, seed_, epoch);
    for (int64_t& id : ids) id = permutation(begin++);
  }

 private:
  int64_t size_;
  uint64_t seed_;
};

}  // namespace

EpochPermutation::EpochPermutation(int64_t size, uint64_t seed, int64_t epoch) : size_(static_cast<uint64_t>(size)) {
  const int bits = BitsFor(size_);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (int i = 0; i < kRounds; ++i) {
    keys_[i] = MixSeed(seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(i));
  }
}

// The halves take turns in being changed by the other one. Each turn is its own inverse, whatever Round does.
uint64_t EpochPermutation::Pass(uint64_t value) const {
  uint64_t left = value >> right_bits_;
  uint64_t right = value & ((uint64_t{1} << right_bits_) - 1);
  for (int i = 0; i < kRounds; i += 2) {
    right ^= Round(left, keys_[i], right_bits_);
    left ^= Round(right, keys_[i + 1], left_bits_);
  }
  return left << right_bits_ | right;
}

int64_t EpochPermutation::operator()(int64_t position) const {
  uint64_t value = static_cast<uint64_t>(position);
  do {
    value = Pass(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

int64_t BatchesPerEpoch(int64_t size, int64_t global_batch_size, bool drop_last) {
  return drop_last ? size / global_batch_size : (size + global_batch_size - 1) / global_batch_size;
}

SampleRange RankShare(int64_t count, int rank, int world) { return {count * rank / world, count * (rank + 1) / world}; }

std::shared_ptr<const SampleOrder> MakeSequentialOrder(int64_t size) {
  return std::make_shared<const SequentialOrder>(size);
}

std::shared_ptr<const SampleOrder> MakeShuffledOrder(int64_t size, uint64_t seed) {
  return std::make_shared<const ShuffledOrder>(size, seed);
}

}  // namespace composer
